//! The time of a census that is rehearsed: it passes as fast as on this machine while somebody
//! holds it, since the coordinator is at work, and faster while all sleep.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use crate::forecast::Moment;

/// Says how late it is in the census, and wakes those who sleep.
#[derive(Clone)]
pub struct Clock(Arc<Inner>);

struct Inner {
    /// Seconds of the census that pass in one that nobody holds.
    speed: f64,
    state: Mutex<State>,
    /// Whoever is to wake first, or the pace, may be another one.
    changed: Notify,
}

struct State {
    /// Seconds of the census that had passed …
    seconds: f64,
    /// … at this time.
    since: Instant,
    /// How many hold the time.
    holds: usize,
    /// By the moment at which somebody is to be woken, and its number.
    sleepers: BTreeMap<(Moment, u64), oneshot::Sender<()>>,
    /// How many have ever slept.
    number: u64,
}

/// Holds the time until it is dropped.
pub struct Hold(Clock);

impl Drop for Hold {
    fn drop(&mut self) {
        let speed = self.0.0.speed;
        let mut state = self.0.0.state.lock();
        state.advance(speed);
        state.holds -= 1;
        drop(state);
        self.0.0.changed.notify_one();
    }
}

impl State {
    fn pace(&self, speed: f64) -> f64 {
        if self.holds > 0 { 1.0 } else { speed }
    }

    /// Brings the time up to now.
    fn advance(&mut self, speed: f64) {
        let now = Instant::now();
        self.seconds += (now - self.since).as_secs_f64() * self.pace(speed);
        self.since = now;
    }
}

impl Clock {
    /// A clock that begins now.
    pub fn new(speed: f64) -> Self {
        let state = State {
            seconds: 0.0,
            since: Instant::now(),
            holds: 0,
            sleepers: BTreeMap::new(),
            number: 0,
        };
        Clock(Arc::new(Inner { speed, state: Mutex::new(state), changed: Notify::new() }))
    }

    /// Seconds since the census began.
    pub fn now(&self) -> f64 {
        let mut state = self.0.state.lock();
        state.advance(self.0.speed);
        state.seconds
    }

    /// Holds the time.
    pub fn hold(&self) -> Hold {
        let mut state = self.0.state.lock();
        state.advance(self.0.speed);
        state.holds += 1;
        Hold(self.clone())
    }

    /// Sleeps until so many seconds have passed in the census, if [`Clock::run`] runs.
    pub async fn sleep_until(&self, seconds: f64) {
        let (wake, woken) = oneshot::channel();
        {
            let mut state = self.0.state.lock();
            state.advance(self.0.speed);
            if seconds <= state.seconds {
                return;
            }
            state.number += 1;
            let place = (Moment(seconds), state.number);
            state.sleepers.insert(place, wake);
        }
        self.0.changed.notify_one();
        // It is not dropped before it was sent.
        let _ = woken.await;
    }

    /// Wakes those who sleep, for ever.
    pub async fn run(self) {
        loop {
            let left = self.wake();
            let pause = async {
                match left {
                    Some(left) => tokio::time::sleep(left).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = pause => {}
                () = self.0.changed.notified() => {}
            }
        }
    }

    /// Wakes those whose time has come; how long it is till the next, if there is one and the pace
    /// stays.
    fn wake(&self) -> Option<Duration> {
        let mut state = self.0.state.lock();
        state.advance(self.0.speed);
        loop {
            let (&(Moment(at), _), _) = state.sleepers.first_key_value()?;
            let left = (at - state.seconds) / state.pace(self.0.speed);
            if left > 0.0 {
                // What takes longer than can be said is looked at again tomorrow.
                let day = 86400.0;
                return Some(Duration::from_secs_f64(left.min(day)));
            }
            if let Some((_, wake)) = state.sleepers.pop_first() {
                // Whoever slept may have gone.
                let _ = wake.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever sleeps wakes in the order of time, whatever the pace is meanwhile, and not early.
    #[tokio::test(start_paused = true)]
    async fn sleepers_keep_the_time_of_the_census() {
        let clock = Clock::new(1e6);
        let running = tokio::spawn(clock.clone().run());
        let woken = Arc::new(Mutex::new(Vec::new()));
        let hold = clock.hold();
        let sleeps = [20_000.0, 10_000.0].map(|at| {
            let (clock, woken) = (clock.clone(), woken.clone());
            tokio::spawn(async move {
                clock.sleep_until(at).await;
                woken.lock().push(at);
                assert!(clock.now() >= at);
            })
        });
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(clock.now().round(), 10.0, "held, it passes as on this machine");
        assert!(woken.lock().is_empty());
        drop(hold);
        for sleep in sleeps {
            sleep.await.unwrap();
        }
        assert_eq!(*woken.lock(), [10_000.0, 20_000.0]);
        clock.sleep_until(10_000.0).await;
        running.abort();
    }
}
