//! What people give that cannot work, and what they are told.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::common::{self, LONG, claim, granted, name};
use lockyard_api::{DistributedLock, Error, ErrorKind, Host, Options, Outcome};
use lockyard_testbed::{Mode, Proxy};
use lockyard_zk::{ZkAcl, ZkConfig, ZkLock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

async fn refused(config: ZkConfig) -> Error {
    let error = ZkLock::connect(config).await.expect_err("cannot work");
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    error
}

fn at(addr: SocketAddr, limit: Duration) -> ZkConfig {
    let mut options = Options::default();
    options.connect_timeout = limit;
    ZkConfig::new([Host::new(addr.ip().to_string(), Some(addr.port()))]).with_options(options)
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let addr = listener.local_addr().expect("a port");
    // It accepts and says nothing, as a frozen server does.
    let error = refused(at(addr, Duration::from_millis(300))).await;
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.message().contains(&addr.to_string()), "{error}");
    // Nobody listens on a port that is kept free.
    let nobody = Proxy::start(addr).await.expect("a port");
    nobody.set(Mode::Refuse).await;
    let error = refused(at(nobody.addr(), Duration::from_secs(5))).await;
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.message().contains("refused"), "{error}");
}

#[tokio::test]
async fn another_kind_of_server_is_the_wrong_one() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let addr = listener.local_addr().expect("a port");
    let answers = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            client.read_exact(&mut [0; 4]).await.expect("a question");
            client.write_all(b"-ERR unknown command 'srvr'\r\n").await.expect("it listens");
        }
    });
    let error = refused(at(addr, Duration::from_secs(5))).await;
    assert_eq!(error.kind(), ErrorKind::WrongServer, "{error}");
    assert!(error.message().contains("no ZooKeeper") && error.message().contains("ERR"), "{error}");
    answers.abort();
}

/// ZooKeeper takes any password; the ACL of what is there says who may use it.
#[tokio::test]
async fn a_wrong_password_is_told_by_the_acl() {
    let Some(harness) = common::start(lockyard_testbed::Options::new()).await else { return };
    let mine = |password: &str| {
        let config = common::config(&harness, LONG).with_chroot("/apps/mine").with_acl(ZkAcl::Creator);
        config.with_credentials("web", password)
    };
    let lock = ZkLock::connect(mine("right-secret")).await.expect("it makes its directory");
    granted(lock.try_acquire(&claim(&name())).await);
    let error = refused(mine("wrong-secret")).await;
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    assert!(error.message().contains("password in the URL") && error.message().contains("/apps/mine"), "{error}");
    assert!(!format!("{error:?}{lock:?}").contains("secret"));
    let other = ZkLock::connect(mine("right-secret")).await.expect("the same password");
    granted(other.try_acquire(&claim(&name())).await);
}
