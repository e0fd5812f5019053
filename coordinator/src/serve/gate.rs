//! What stands before the service: tokens and bounds are looked at before a message is read.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tonic::{
    body::Body,
    codegen::http::{Request, Response},
};
use tower::{Layer, Service};

/// What becomes of a call.
pub type Answering<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

/// Somebody whom calls have to pass.
pub trait Gate: Clone {
    /// Hands a call on to the service behind the gate, or answers it.
    fn pass<S>(&self, request: Request<Body>, service: &mut S) -> Answering<S::Error>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error: 'static>,
        S::Future: Send + 'static;
}

/// The layer of a gate.
#[derive(Clone)]
pub struct Through<G>(pub G);

impl<G: Gate, S> Layer<S> for Through<G> {
    type Service = Behind<G, S>;

    fn layer(&self, service: S) -> Behind<G, S> {
        Behind { gate: self.0.clone(), service }
    }
}

/// A service behind a gate.
#[derive(Clone)]
pub struct Behind<G, S> {
    gate: G,
    service: S,
}

impl<G: Gate, S> Service<Request<Body>> for Behind<G, S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error: 'static>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Answering<S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.gate.pass(request, &mut self.service)
    }
}
