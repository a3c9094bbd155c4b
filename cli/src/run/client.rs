//! The connection of a run: the locks, and what of them the command may inherit.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use lockyard::{Error, Guard, Locker, LockerBuilder};

#[cfg(feature = "metrics")]
use super::metrics::Metrics;
use super::renewals::{Ear, Renewals};
use crate::args::RunArgs;
use crate::exit::Failure;
use crate::source::Source;

/// One client of the backend.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) locks: Locker,
    #[cfg(feature = "file")]
    files: Option<lockyard::file::FileLock>,
}

impl Client {
    pub(super) async fn connect(
        source: &Source,
        args: &RunArgs,
        holder: &str,
        renewals: &Arc<Renewals>,
        #[cfg(feature = "metrics")] metrics: Option<&Metrics>,
    ) -> Result<Self, Error> {
        let ear = Ear(Arc::clone(renewals));
        let configure = |mut builder: LockerBuilder| {
            #[cfg(feature = "metrics")]
            if let Some(metrics) = metrics {
                let observer = metrics.observer(builder.capabilities().backend);
                builder = builder.observer(observer);
            }
            if let Some(renew) = args.renew {
                builder = builder.renew_after(renew);
            }
            builder.label(holder).observer(ear)
        };
        #[cfg(feature = "file")]
        if source.is_file() && !args.no_inherit_lock {
            use lockyard::file::{FileConfig, FileLock};
            let files = FileLock::connect(FileConfig::from_url(source.url())?).await?;
            let builder = Locker::over(Arc::new(files.clone())).options(source.options());
            return Ok(Self { locks: configure(builder).build()?, files: Some(files) });
        }
        let locks = lockyard::connect_with(source.url(), configure).await?;
        Ok(Self {
            locks,
            #[cfg(feature = "file")]
            files: None,
        })
    }

    /// The descriptor that keeps the lock, for the command to inherit: the kernel frees the lock when nobody has it any
    /// more. `None` where there is no such thing, or the command should not have it.
    pub(super) fn descriptor(&self, guard: &Guard) -> Result<Option<OwnedFd>, Failure> {
        #[cfg(feature = "file")]
        if let Some(files) = &self.files {
            return Ok(files.descriptor(guard.claim())?);
        }
        let _ = guard;
        Ok(None)
    }
}
