//! A client of memory registers that is wrong in one way.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use lockyard_api::{
    Claim, Clock, DistributedLock, ErrorKind, Fenced, FencedRegister, FencingToken, LockName, Moment, Result, Version,
    Write, async_trait,
};
use lockyard_memory::{MemoryLock, MemoryRegister};

use crate::fault::Fault;

#[derive(Debug)]
pub(crate) struct RegisterMutant {
    inner: MemoryRegister,
    locks: MemoryLock,
    fault: Fault,
    prefix: String,
    /// What this client has written.
    own: Mutex<Vec<LockName>>,
}

/// When any client first wrote a name; no two checks have one in common.
static FIRST: LazyLock<Mutex<HashMap<LockName, Moment>>> = LazyLock::new(Mutex::default);

/// Larger than every token of a check.
const LARGEST: u64 = 1 << 60;

impl RegisterMutant {
    pub(crate) fn new(inner: MemoryRegister, locks: MemoryLock, fault: Fault, prefix: &str) -> Self {
        Self { inner, locks, fault, prefix: prefix.to_owned(), own: Mutex::default() }
    }

    fn name(&self, name: &LockName) -> LockName {
        let mut text = format!("{}{name}", self.prefix);
        if self.fault == Fault::RegisterNameIsCut {
            text.truncate(text.floor_char_boundary(510));
        }
        // Glued to its namespace it may be too long: that one stays as it is.
        LockName::new(text).unwrap_or_else(|_| name.clone())
    }

    /// Judges the write by the wrong rule.
    async fn judged(&self, name: &LockName, value: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
        let found = match self.fault {
            Fault::RegisterIsTheLocks => {
                let _ = self.locks.try_acquire(&Claim::new(name.clone(), Duration::from_secs(20))).await?;
                return self.inner.write(name, value, token, expected).await;
            }
            Fault::RegisterIgnoresToken
            | Fault::RegisterIgnoresVersion
            | Fault::RegisterWantsGreaterToken
            | Fault::RegisterConflictComesFirst
            | Fault::RegisterWritesInTwoSteps => self.inner.read(name).await?,
            _ => return self.inner.write(name, value, token, expected).await,
        };
        match (self.fault, found.refusal(token, expected)) {
            (Fault::RegisterIgnoresToken, _) => {
                let token = found.token.map_or(token, |stored| stored.max(token));
                self.inner.write(name, value, token, expected).await
            }
            (Fault::RegisterIgnoresVersion, Some(Write::Conflict { .. }) | None) => {
                self.overwrite(name, value, token).await
            }
            (Fault::RegisterWantsGreaterToken, _) if found.token == Some(token) => {
                Ok(Write::StaleToken { stored: token })
            }
            (Fault::RegisterConflictComesFirst, Some(_)) if found.version != expected => {
                Ok(Write::Conflict { version: found.version })
            }
            (Fault::RegisterWritesInTwoSteps, None) => {
                // The others read meanwhile, as they would anyway, sooner or later.
                Clock::system().sleep(Duration::from_millis(100)).await;
                self.overwrite(name, value, token).await
            }
            _ => self.inner.write(name, value, token, expected).await,
        }
    }

    /// Writes whatever the stored token and version are.
    async fn overwrite(&self, name: &LockName, value: &[u8], token: FencingToken) -> Result<Write> {
        loop {
            let found = self.inner.read(name).await?;
            let token = found.token.map_or(token, |stored| stored.max(token));
            if let written @ Write::Written { .. } = self.inner.write(name, value, token, found.version).await? {
                return Ok(written);
            }
        }
    }
}

#[async_trait]
impl FencedRegister for RegisterMutant {
    async fn read(&self, name: &LockName) -> Result<Fenced> {
        let found = self.inner.read(&self.name(name)).await.map_err(|error| guessed(self.fault, error))?;
        match (self.fault, found.value.is_none()) {
            (Fault::RegisterFreshIsNotEmpty, true) => {
                Ok(Fenced::new(Vec::new(), FencingToken::new(0)?, Version::ABSENT))
            }
            _ => Ok(found),
        }
    }

    async fn write(&self, name: &LockName, value: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
        let name = self.name(name);
        self.own.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
        FIRST
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(name.clone())
            .or_insert_with(|| Clock::system().now());
        let text = String::from_utf8_lossy(value);
        let value = match self.fault {
            Fault::RegisterIsText => text.as_bytes(),
            Fault::RegisterCutsValues => &value[..value.len().min(Fenced::MAX_VALUE_BYTES)],
            _ => value,
        };
        let written = self.judged(&name, value, token, expected).await;
        written.map_err(|error| guessed(self.fault, error))
    }

    fn tells_age(&self) -> bool {
        self.fault == Fault::RegisterAgeIsTheFirst
    }

    async fn age(&self, name: &LockName) -> Result<Option<Duration>> {
        let name = self.name(name);
        let first = FIRST.lock().unwrap_or_else(PoisonError::into_inner).get(&name).copied();
        Ok(first.map(|first| Clock::system().now().since(first)))
    }
}

impl Drop for RegisterMutant {
    fn drop(&mut self) {
        if self.fault != Fault::RegisterEndsWithItsClient {
            return;
        }
        let own = std::mem::take(&mut *self.own.lock().unwrap_or_else(PoisonError::into_inner));
        // One poll is enough: memory answers at once.
        let emptied = std::pin::pin!(async {
            for name in own {
                let version = self.inner.read(&name).await?.version;
                let _ = self.inner.write(&name, b"gone", FencingToken::new(LARGEST)?, version).await?;
            }
            Result::<()>::Ok(())
        });
        let _ = emptied.poll(&mut Context::from_waker(Waker::noop()));
    }
}

fn guessed(fault: Fault, error: lockyard_api::Error) -> lockyard_api::Error {
    if fault == Fault::NotAppliedIsGuessed && error.kind() == ErrorKind::Unreachable {
        return error.not_applied();
    }
    error
}
