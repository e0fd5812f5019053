//! People are told what happens by a thread of its own: whoever reads standard error may keep it
//! waiting, and nothing else is to wait for that.

use std::{
    sync::mpsc::{Sender, channel},
    thread::JoinHandle,
};

use parking_lot::Mutex;

use crate::core::News;

/// The thread, while there is one.
pub(super) struct Teller {
    running: Mutex<Option<(Sender<News>, JoinHandle<()>)>>,
}

impl Teller {
    /// Starts the thread, which ends with this at the latest.
    pub(super) fn start() -> Self {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new().name("news".to_owned());
        let thread = thread.spawn(move || receiver.iter().for_each(|news| say(&news)));
        let running = (sender, thread.expect("threads can be spawned"));
        Teller { running: Mutex::new(Some(running)) }
    }

    /// Has something said, after all that was told before.
    pub(super) fn tell(&self, news: News) {
        match &*self.running.lock() {
            // The thread ends when this lets it.
            Some((sender, _)) => drop(sender.send(news)),
            None => say(&news),
        }
    }

    /// Returns when all that was told has been said.
    pub(super) fn finish(&self) {
        let running = self.running.lock().take();
        if let Some((sender, thread)) = running {
            drop(sender);
            let _ = thread.join();
        }
    }
}

fn say(news: &News) {
    match news {
        News::LeaseExpired { lease, worker, units } => {
            tracing::warn!(lease, %worker, units, "lease expired");
        }
        News::LeftToOthers { unit, worker, failure } => {
            tracing::error!(
                ?unit,
                %worker,
                failure,
                "a worker has failed at a unit again and again: it waits for another worker"
            );
        }
        News::SetAside { unit, failure } => {
            tracing::error!(?unit, failure, "many workers have failed at a unit: it is set aside");
        }
    }
}
