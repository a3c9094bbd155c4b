//! What is checked once, when a client connects.

use std::time::Duration;

use lockyard_api::{Error, ErrorKind, Result};
use zookeeper_client::{CreateMode, Error as Driver, MultiWriteError};

use crate::config::ZkConfig;
use crate::error;
use crate::probe;
use crate::session::Live;

/// Looks for a server that can hold locks.
///
/// # Errors
/// `Unreachable` or `WrongServer`.
pub(crate) async fn server(config: &ZkConfig, limit: Duration) -> Result<()> {
    probe::probe(&config.addresses(), limit).await
}

/// Makes chroot and namespace, and asks whether locks may be made there: by a transaction whose last step fails, so that
/// nothing is left of it.
///
/// # Errors
/// `Auth` when the ACL does not allow it, `WrongServer` when the server only reads.
pub(crate) async fn permission(config: &ZkConfig, live: &Live) -> Result<()> {
    let base = config.base();
    let failed = |error, what: &str| error::of_driver(error, &format!("{what} {}", base.path())).not_applied();
    if !base.is_root() {
        let mode = CreateMode::Persistent.with_acls(config.acl.acls());
        live.client.mkdir(base.path(), &mode).await.map_err(|error| failed(error, "creating"))?;
    }
    let nowhere = format!("{}/lockyard-probe", base.path().trim_end_matches('/'));
    let mut probe = live.client.new_multi_writer();
    let steps = probe
        .add_create(&nowhere, &[], &CreateMode::Container.with_acls(config.acl.acls()))
        .and_then(|()| probe.add_check_version(&format!("{nowhere}/none"), 0));
    steps.map_err(|error| failed(error, "probing"))?;
    match probe.commit().await {
        Err(MultiWriteError::OperationFailed { index: 1, .. }) => Ok(()),
        Err(MultiWriteError::OperationFailed { source: Driver::NodeExists, .. }) => Ok(()),
        Err(MultiWriteError::OperationFailed { source, .. } | MultiWriteError::RequestFailed { source }) => {
            Err(failed(source, "making locks in"))
        }
        Ok(_) => Err(Error::new(ErrorKind::Protocol, format!("{nowhere}/none exists: delete it")).not_applied()),
    }
}
