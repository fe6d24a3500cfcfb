//! The host of an agent: who holds it, and work on it, one piece after the other. Who may connect is up to `server`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kelpie_engine::verbs_host::VerbsHost;
use tokio::sync::Notify;
use tokio::task::JoinError;
use tokio::time::timeout;
use tracing::warn;

use crate::steps::LONGEST_RELEASE;

/// The machine, shared with the blocking threads that do its steps.
type SharedHost = Arc<tokio::sync::Mutex<Box<dyn VerbsHost>>>;

/// Who has the host.
#[derive(Debug, Clone)]
pub struct LeaseHolder {
    /// In words for others.
    pub name: String,
    /// Whether it has left, and the host is being torn down.
    pub leaving: bool,
}

/// A host that one controller at a time may use.
pub struct LeasedHost {
    host: SharedHost,
    holder: Mutex<Option<LeaseHolder>>,
    stuck: Notify,
}

impl LeasedHost {
    /// A host that nobody holds.
    pub fn new(host: Box<dyn VerbsHost>) -> Self {
        Self { host: Arc::new(tokio::sync::Mutex::new(host)), holder: Mutex::new(None), stuck: Notify::new() }
    }

    /// Comes back once the device does not let go of what was set up.
    pub async fn stuck(&self) {
        self.stuck.notified().await;
    }

    /// Takes the host, or says who has it.
    pub fn lease(&self, name: String) -> Result<(), LeaseHolder> {
        match &mut *locked(&self.holder) {
            Some(holder) => Err(holder.clone()),
            free => {
                *free = Some(LeaseHolder { name, leaving: false });
                Ok(())
            }
        }
    }

    /// Gives the host back, once nothing is left on it.
    pub async fn release(&self) {
        if let Some(holder) = &mut *locked(&self.holder) {
            holder.leaving = true;
        }
        match timeout(LONGEST_RELEASE, self.blocking(|host| host.tear_down())).await {
            Ok(torn_down) => {
                if torn_down.is_err() {
                    warn!("tearing down panicked");
                }
                *locked(&self.holder) = None;
            }
            Err(_) => self.stuck.notify_one(),
        }
    }

    /// Does something with the host on a thread that may block.
    ///
    /// Whoever asks first is served first, so that no step overtakes the tear-down after it.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn VerbsHost) -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let mut host = Arc::clone(&self.host).lock_owned().await;
        tokio::task::spawn_blocking(move || work(&mut **host)).await
    }
}

/// A step that panicked leaves a host that can still be torn down.
pub fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
