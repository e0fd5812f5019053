//! How calls are made: for how long, and until the worker is to stop.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Status};

/// When the worker is asked to stop, an answer that changes what the coordinator knows of it is
/// awaited for so long: one that is well answers within five seconds, and the lease that it may grant
/// would have to expire.
pub(super) const LAST_ANSWER: Duration = Duration::from_secs(8);
/// The same of a delivery, since more of it was sent: the coordinator may be about to look for blocks
/// that it names, or to write them. Slurm and Kubernetes wait for half a minute.
pub(super) const LAST_DELIVERY: Duration = Duration::from_secs(20);

/// The answer to a call, unless the worker is asked to stop and `grace` ends, which begins then: to a
/// call that reads something the coordinator may wait for a shelf, for many minutes.
pub(super) async fn unless_stopped<T>(
    stop: CancellationToken,
    grace: impl Future<Output = ()>,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let stopped = async {
        stop.cancelled().await;
        grace.await;
    };
    tokio::select! {
        biased;
        answer = call => answer,
        () = stopped => Err(Status::unavailable("the worker is to stop")),
    }
}

/// A time that begins when it is first waited for.
pub(super) async fn for_a_time(time: Duration) {
    sleep(time).await;
}

/// Waits until `sent` has not grown for so long.
pub(super) async fn rests(sent: Arc<AtomicUsize>, pause: Duration) {
    let mut since = tokio::time::Instant::now();
    let mut before = sent.load(Ordering::Relaxed);
    while since.elapsed() < pause {
        sleep(Duration::from_secs(1)).await;
        let now = sent.load(Ordering::Relaxed);
        if std::mem::replace(&mut before, now) != now {
            since = tokio::time::Instant::now();
        }
    }
}

/// An answer, which says nothing if the coordinator does not know what it was asked about.
pub(super) fn nothing_if_unknown<T: Default>(
    answer: Result<tonic::Response<T>, Status>,
) -> Result<tonic::Response<T>, Status> {
    match answer {
        Err(status) if status.code() == Code::NotFound => Ok(tonic::Response::new(T::default())),
        other => other,
    }
}

pub(super) fn with_timeout<T>(message: T, seconds: u64) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(Duration::from_secs(seconds));
    request
}

/// Sleeps until the pause is over, or the worker is asked to stop.
pub(super) fn sleeper(stop: &CancellationToken) -> impl backon::Sleeper + use<> {
    let stop = stop.clone();
    move |pause| stop.clone().run_until_cancelled_owned(sleep(pause))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A coordinator that says nothing does not keep a worker that is to go; one that is about to
    /// answer is heard.
    #[tokio::test(start_paused = true)]
    async fn who_is_to_stop_waits_for_an_answer_no_longer_than_it_takes() {
        let stop = CancellationToken::new();
        let after = |pause| async move {
            sleep(pause).await;
            Ok(())
        };
        let [late, in_time] = [LAST_ANSWER * 2, LAST_ANSWER / 2];
        let ask = |grace, pause| unless_stopped(stop.clone(), for_a_time(grace), after(pause));
        // However long before it is asked to stop it has begun.
        let stopping = async {
            sleep(late).await;
            stop.cancel();
        };
        let (answer, ()) = tokio::join!(ask(LAST_ANSWER, late + in_time), stopping);
        assert!(answer.is_ok());
        assert!(ask(LAST_ANSWER, in_time).await.is_ok());
        assert!(ask(LAST_ANSWER, late).await.is_err());
        assert!(ask(Duration::ZERO, in_time).await.is_err());
    }

    /// A delivery that goes on is not given up; one that nobody takes is.
    #[tokio::test(start_paused = true)]
    async fn what_is_being_sent_is_awaited_while_more_of_it_goes() {
        let stop = CancellationToken::new();
        stop.cancel();
        for (pause, comes) in [(LAST_ANSWER / 2, true), (LAST_ANSWER * 3, false)] {
            let sent = Arc::new(AtomicUsize::new(0));
            let grace = rests(sent.clone(), LAST_ANSWER);
            let send = async move {
                for i in 0..20 {
                    sent.store(i, Ordering::Relaxed);
                    sleep(pause).await;
                }
                Ok(())
            };
            assert_eq!(unless_stopped(stop.clone(), grace, send).await.is_ok(), comes);
        }
    }
}
