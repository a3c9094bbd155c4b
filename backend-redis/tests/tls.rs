//! TLS, with certificates of this test alone.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lockyard_api::{Claim, ErrorKind};
use lockyard_redis::testing::RedisHarness;
use lockyard_redis::{RedisConfig, RedisLock};
use lockyard_testbed::Options;
use support::{granted, name, try_acquire};

/// A certificate of 127.0.0.1 that vouches for itself, and its key. `None`, said on stderr, without openssl.
fn certificate(dir: &Path) -> Option<(PathBuf, PathBuf)> {
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj", "/CN=lockyard test"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=IP:127.0.0.1"])
        .arg("-out")
        .arg(&cert)
        .arg("-keyout")
        .arg(&key)
        .output();
    match made {
        Ok(output) if output.status.success() => Some((cert, key)),
        other => {
            eprintln!("SKIPPED: openssl makes no certificate: {other:?}");
            None
        }
    }
}

/// Opens a TLS port on a running server; `None`, said on stderr, when it was built without TLS.
async fn tls_port(harness: &RedisHarness, cert: &Path, key: &Path) -> Option<u16> {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let mut side = harness.side().await.expect("a connection");
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("tls-cert-file").arg(cert.to_str()).arg("tls-key-file").arg(key.to_str());
    set.arg("tls-ca-cert-file").arg(cert.to_str()).arg("tls-auth-clients").arg("optional").arg("tls-port").arg(port);
    match set.exec_async(&mut side).await {
        Ok(()) => Some(port),
        Err(error) => {
            eprintln!("SKIPPED: this server has no TLS: {error}");
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_over_tls() {
    let harness = RedisHarness::start_with(Options::new().native_only()).await.expect("a server of our own");
    let dir = tempfile::tempdir().expect("a directory");
    let Some((cert, key)) = certificate(dir.path()) else { return };
    let Some(port) = tls_port(&harness, &cert, &key).await else { return };
    let (ca, key) = (cert.display(), key.display());
    let trusting = RedisConfig::from_url(&format!("rediss://127.0.0.1:{port}?tls_ca={ca}")).expect("a URL");
    let lock = RedisLock::connect(trusting).await.expect("connects");
    granted(try_acquire(&lock, &Claim::new(name("a"), Duration::from_secs(5))).await);
    let url = format!("rediss://127.0.0.1:{port}?tls_ca={ca}&tls_cert={ca}&tls_key={key}");
    RedisLock::connect(RedisConfig::from_url(&url).expect("a URL")).await.expect("connects with a certificate");

    for (url, kind, word) in [
        (format!("rediss://127.0.0.1:{port}"), ErrorKind::Unreachable, "tls_ca"),
        (format!("rediss://127.0.0.1:{port}?tls_ca=/no/such/file"), ErrorKind::Config, "/no/such/file"),
        (format!("rediss://127.0.0.1:{port}?tls_cert={ca}"), ErrorKind::Config, "tls_key"),
        (format!("redis://127.0.0.1:{port}?connect_timeout=2s"), ErrorKind::Unreachable, "host and port"),
    ] {
        let error = RedisLock::connect(RedisConfig::from_url(&url).expect(&url)).await.expect_err(&url);
        assert_eq!(error.kind(), kind, "{url}: {error}");
        assert!(error.message().contains(word), "{url}: {error}");
    }
}
