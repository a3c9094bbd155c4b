//! The options that all backends share.

use std::path::PathBuf;
use std::time::Duration;

use super::LockUrl;
use crate::{Clock, Drift, Error, Namespace, Result};

/// Files for TLS, in PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsFiles {
    /// Certificates of the authorities that the server's certificate is checked against, instead of the usual ones.
    pub ca: Option<PathBuf>,
    /// The client's certificate.
    pub cert: Option<PathBuf>,
    /// The client's key.
    pub key: Option<PathBuf>,
}

impl TlsFiles {
    /// Whether no file was named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ca.is_none() && self.cert.is_none() && self.key.is_none()
    }
}

/// The options that all backends share, with their defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Where the names live; `lockyard` unless given.
    pub namespace: Namespace,
    /// The ttl of claims that name none, and the timeout of sessions: 30 s. Longer: a dead holder blocks longer. Shorter:
    /// more renewals, and a shorter outage loses the lock.
    pub ttl: Duration,
    /// How long connecting may take: 5 s.
    pub connect_timeout: Duration,
    /// How long one request may take before its outcome is unknown: 5 s.
    pub op_timeout: Duration,
    /// How far clocks may run apart: 0.01 of the time.
    pub drift: Drift,
    /// Files for TLS.
    pub tls: TlsFiles,
    /// The clock that deadlines are computed from.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: Namespace::default(),
            ttl: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            op_timeout: Duration::from_secs(5),
            drift: Drift::DEFAULT,
            tls: TlsFiles::default(),
            clock: Clock::system(),
        }
    }
}

impl Options {
    /// The query keys of these options.
    pub const KEYS: &'static [&'static str] =
        &["namespace", "ttl", "connect_timeout", "op_timeout", "drift", "tls_ca", "tls_cert", "tls_key"];

    pub(super) fn take_from(url: &mut LockUrl) -> Result<Self> {
        let mut options = Self::default();
        if let Some(namespace) = url.take("namespace") {
            options.namespace = Namespace::new(namespace)?;
        }
        let times = [
            ("ttl", &mut options.ttl),
            ("connect_timeout", &mut options.connect_timeout),
            ("op_timeout", &mut options.op_timeout),
        ];
        for (key, slot) in times {
            if let Some(time) = url.take_duration(key)? {
                if time.is_zero() {
                    return Err(Error::config(format!("{key}=0 leaves no time at all: write a time such as 5s")));
                }
                *slot = time;
            }
        }
        if let Some(share) = url.take_number::<f64>("drift")? {
            options.drift = Drift::new(share)?;
        }
        options.tls.ca = url.take("tls_ca").map(PathBuf::from);
        options.tls.cert = url.take("tls_cert").map(PathBuf::from);
        options.tls.key = url.take("tls_key").map(PathBuf::from);
        Ok(options)
    }
}
