//! Who gets in: tokens are checked before a message is read, and a connection that does not show a
//! worker's does not stay.

use std::io;

use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tonic::{
    Status,
    body::Body,
    codegen::http::{Request, Response, header::AUTHORIZATION},
};
use tower::Service;
use trailtrap_shared::protocol::access::AccessToken;
use trailtrap_worker::process::connections::Newcomer;

use crate::serve::gate::{Answering, Gate};

/// So many connections may wait to be accepted. When hundreds of workers come at once, a shorter
/// queue resets some of them.
const QUEUE: u32 = 4096;

/// The call that tells how far a census is. Its answer is large.
pub const STATUS: &str = "/trailtrap.v1.Census/Status";
/// The calls that a viewer's token allows.
const VIEWER_CALLS: [&str; 1] = [STATUS];

/// Knows the tokens.
#[derive(Clone)]
pub struct Guard {
    worker: AccessToken,
    viewer: AccessToken,
}

impl Guard {
    /// A guard who admits workers to everything and viewers to the status.
    pub fn new(worker: AccessToken, viewer: AccessToken) -> Self {
        Guard { worker, viewer }
    }

    /// Who makes a call.
    fn admit(&self, call: &str, header: Option<&[u8]>) -> Result<Role, Status> {
        let token = header.and_then(AccessToken::from_header).ok_or_else(|| {
            Status::unauthenticated(
                "it admits those with a token: use the access file that it wrote (--access)",
            )
        })?;
        let (worker, viewer) = (token == self.worker, token == self.viewer);
        match (worker, viewer) {
            (true, _) => Ok(Role::Worker),
            (_, true) if VIEWER_CALLS.contains(&call) => Ok(Role::Viewer),
            (_, true) => Err(Status::permission_denied(
                "this access file is for looking on (status); workers need access.json instead \
                 of viewer.json",
            )),
            _ => Err(Status::unauthenticated(
                "the token is not valid: the access file is another coordinator's, or old",
            )),
        }
    }
}

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Worker,
    Viewer,
}

impl Gate for Guard {
    fn pass<S>(&self, request: Request<Body>, service: &mut S) -> Answering<S::Error>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error: 'static>,
        S::Future: Send + 'static,
    {
        let header = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes());
        match self.admit(request.uri().path(), header) {
            Ok(role) => {
                if let Some(newcomer) = request.extensions().get::<Newcomer>()
                    && role == Role::Worker
                {
                    newcomer.admit();
                }
                Box::pin(service.call(request))
            }
            // The body is not even looked at.
            Err(status) => Box::pin(async move { Ok(status.into_http()) }),
        }
    }
}

/// Listens at HOST:PORT, at the first address of that host that can be had.
///
/// # Errors
/// If the host has no address, or none of them can be listened at; the reason is that of the last.
pub async fn listen(address: &str) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
    for address in lookup_host(address).await? {
        let listen = || {
            let socket =
                if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            // So that a coordinator can take the place of one that was stopped a moment ago.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(QUEUE)
        };
        match listen() {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, time::Duration};

    use tokio::net::TcpStream;
    use tonic::Code;
    use tower::Layer;
    use trailtrap_worker::process::connections::{Newcomers, few_connections};

    use super::*;
    use crate::serve::gate::Through;

    /// Nothing happens in a test because of the time.
    const LONG: Duration = Duration::from_secs(86400);

    #[tokio::test]
    async fn silent_connections_do_not_keep_probes_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = few_connections(listener, LONG, 4);
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_service_status("", tonic_health::ServingStatus::Serving).await;
        let server = tonic::transport::Server::builder().add_service(health);
        tokio::spawn(server.serve_with_incoming(connections));
        let mut silent = Vec::new();
        for _ in 0..7 {
            for _ in 0..100 {
                silent.push(TcpStream::connect(address).await.unwrap());
            }
            let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}"));
            let channel = endpoint.unwrap().connect().await.unwrap();
            let mut client = tonic_health::pb::health_client::HealthClient::new(channel);
            client.check(tonic_health::pb::HealthCheckRequest::default()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_worker_stays_and_an_onlooker_does_not() {
        let guard = Guard::new(AccessToken::new([1; 32]), AccessToken::new([2; 32]));
        let answer = async |_: Request<Body>| Ok::<_, io::Error>(Response::new(Body::empty()));
        let answering = tower::service_fn(move |request| Box::pin(answer(request)));
        let mut service = Through(guard).layer(answering);
        for (token, stays) in [(1, true), (2, false), (3, false)] {
            let (newcomer, _has_to_go) = Newcomers::new(1).enter(IpAddr::from([127, 0, 0, 1]));
            let request = Request::builder()
                .uri(VIEWER_CALLS[0])
                .header(AUTHORIZATION, AccessToken::new([token; 32]).header().as_bytes())
                .extension(newcomer.clone());
            service.call(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(newcomer.is_admitted(), stays, "{token}");
        }
    }

    #[test]
    fn tokens_open_what_they_are_for() {
        let guard = Guard::new(AccessToken::new([1; 32]), AccessToken::new([2; 32]));
        let header = |byte: u8| format!("Bearer {}", format!("{byte:02x}").repeat(32));
        let admit = |call: &str, text: &str| {
            guard.admit(call, Some(text.as_bytes())).map_err(|status| status.code())
        };
        for call in
            ["Register", "Lease", "FetchPartition", "Heartbeat", "Complete", "GiveBack", "Unheard"]
        {
            let call = format!("/trailtrap.v1.Census/{call}");
            assert_eq!(admit(&call, &header(1)), Ok(Role::Worker));
            assert_eq!(admit(&call, &header(2)), Err(Code::PermissionDenied));
            assert_eq!(admit(&call, &header(3)), Err(Code::Unauthenticated));
            assert_eq!(guard.admit(&call, None).unwrap_err().code(), Code::Unauthenticated);
        }
        assert_eq!(admit(STATUS, &header(1)), Ok(Role::Worker));
        assert_eq!(admit(STATUS, &header(2)), Ok(Role::Viewer));
        assert_eq!(admit(STATUS, &header(3)), Err(Code::Unauthenticated));
        assert_eq!(admit(STATUS, &header(1)[1..]), Err(Code::Unauthenticated));
    }
}
