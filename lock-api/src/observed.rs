//! A fenced register whose refusals are told.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Event, Fenced, FencedRegister, FencingToken, LockName, Observer, Result, Version, Write};

/// A register that tells an [`Observer`] of each write refused for its old token ([`Event::Rejected`]): the sign that a
/// holder acted after it had lost its lock, and that fencing has caught it.
///
/// ```
/// # use std::sync::Arc;
/// # use lockyard_api::{FencedRegister, ObservedRegister, Observer};
/// fn observed(register: Arc<dyn FencedRegister>, observer: impl Observer) -> Arc<dyn FencedRegister> {
///     Arc::new(ObservedRegister::new(register, observer))
/// }
/// ```
#[derive(Debug)]
pub struct ObservedRegister {
    register: Arc<dyn FencedRegister>,
    observer: Box<dyn Observer>,
}

impl ObservedRegister {
    /// The register, observed.
    pub fn new(register: Arc<dyn FencedRegister>, observer: impl Observer) -> Self {
        Self { register, observer: Box::new(observer) }
    }
}

#[async_trait]
impl FencedRegister for ObservedRegister {
    async fn read(&self, name: &LockName) -> Result<Fenced> {
        self.register.read(name).await
    }

    async fn write(&self, name: &LockName, value: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
        let written = self.register.write(name, value, token, expected).await;
        if let Ok(Write::StaleToken { stored }) = written {
            self.observer.on_event(&Event::Rejected { name: name.clone(), token, stored });
        }
        written
    }

    fn tells_age(&self) -> bool {
        self.register.tells_age()
    }

    async fn age(&self, name: &LockName) -> Result<Option<Duration>> {
        self.register.age(name).await
    }
}
