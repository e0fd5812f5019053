//! What it means that a call has failed: whether there is a coordinator, and whether to try again.

use std::time::Duration;

use tonic::{Code, Status};

/// A call that has lasted so long was held by the coordinator: a connection that falls silent is
/// given up after 40 s (`access`).
const NOTICED: Duration = Duration::from_secs(60);

/// Whether there was a coordinator, though a call failed after this time: it had no room for the
/// call, or it held the call for longer than a call that nobody answers lasts.
pub(super) fn shows_presence(status: &Status, after: Duration) -> bool {
    match status.code() {
        Code::ResourceExhausted => true,
        // The time that the caller had set; tonic says that it was cancelled.
        Code::DeadlineExceeded | Code::Cancelled => false,
        // Calls that wait for a connection wait one after another.
        _ => after > NOTICED && !causes(status).any(|cause| cause.is::<tonic::ConnectError>()),
    }
}

/// Whether the same call may succeed later.
pub fn is_passing(status: &Status) -> bool {
    // A connection that breaks is sometimes reported as an internal error, with its cause; the
    // coordinator's have none.
    let broken = status.code() == Code::Internal && std::error::Error::source(status).is_some();
    broken
        || matches!(
            status.code(),
            Code::Unavailable
                | Code::DeadlineExceeded
                | Code::Cancelled
                | Code::Unknown
                | Code::Aborted
                | Code::ResourceExhausted
        )
}

/// A status and what caused it, from the outside in.
fn causes(status: &Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(Some(status as &(dyn std::error::Error + 'static)), |cause| {
        // `std::io::Error::source` skips the error that it wraps and returns that one's source.
        let inner = cause.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
        inner.map_or_else(|| cause.source(), |inner| Some(inner))
    })
}

/// Says, if it is so, that what answers at an address does not show that it is the coordinator of
/// the access file.
pub fn other_coordinator(address: &str, status: &Status) -> Option<String> {
    let certificate = certificate_error(status)?;
    Some(format!(
        "what answers at {address} is not the coordinator of the access file: {certificate}"
    ))
}

/// What is wrong with the coordinator's certificate, if that is why the call failed. Trying again
/// does not help then.
pub(super) fn certificate_error(status: &Status) -> Option<&rustls::Error> {
    causes(status)
        .filter_map(|cause| cause.downcast_ref::<rustls::Error>())
        .find(|error| matches!(error, rustls::Error::InvalidCertificate(_)))
}

/// The innermost error: "connection refused" rather than "transport error".
pub fn root_cause(status: &Status) -> String {
    let cause = causes(status).last().unwrap_or(status);
    match cause.downcast_ref::<Status>() {
        Some(status) => status.message().to_owned(),
        None => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a coordinator says shows that it is there; what nobody answers does not, however long
    /// it takes, nor what was given up here.
    #[test]
    fn who_holds_a_call_for_long_is_there() {
        let short = Duration::from_secs(1);
        assert!(shows_presence(&Status::resource_exhausted("no room"), short));
        assert!(!shows_presence(&Status::unavailable("it stops"), short));
        assert!(shows_presence(&Status::unavailable("it stops"), 2 * NOTICED));
        for given_up in [Status::deadline_exceeded("late"), Status::cancelled("Timeout expired")] {
            assert!(!shows_presence(&given_up, 2 * NOTICED));
        }
    }
}
