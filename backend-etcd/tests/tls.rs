//! TLS, with certificates of this test alone, before a real etcd.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use common::{claim, granted, harness, released, server, within};
use lockyard_api::ErrorKind;
use lockyard_etcd::{EtcdConfig, EtcdLock};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A certificate of 127.0.0.1 that vouches for itself, and its key. `None`, said on stderr, without openssl.
fn certificate(dir: &Path, stem: &str) -> Option<(PathBuf, PathBuf)> {
    let (cert, key) = (dir.join(format!("{stem}.pem")), dir.join(format!("{stem}.key")));
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

/// Speaks TLS for a server that does not, and wants a certificate of its clients.
async fn terminate(upstream: std::net::SocketAddr, cert: &Path, key: &Path) -> u16 {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = CertificateDer::from_pem_file(cert).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(chain.clone()).expect("a root");
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(clients.build().expect("a verifier"))
        .with_single_cert(vec![chain], PrivateKeyDer::from_pem_file(key).expect("a key"))
        .expect("a server");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut client) = acceptor.accept(client).await else { return };
                let mut server = TcpStream::connect(upstream).await.expect("connects");
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_over_tls() {
    let harness = harness().await;
    let dir = tempfile::tempdir().expect("a directory");
    let (Some((cert, key)), Some((other, other_key))) =
        (certificate(dir.path(), "right"), certificate(dir.path(), "wrong"))
    else {
        return;
    };
    let port = terminate(server(&harness).addr(), &cert, &key).await;
    let (ca, key, other, other_key) = (cert.display(), key.display(), other.display(), other_key.display());
    let url = format!("etcds://127.0.0.1:{port}?tls_ca={ca}&tls_cert={ca}&tls_key={key}");
    let lock = EtcdLock::connect(EtcdConfig::from_url(&url).expect("a URL")).await.expect("connects");
    let claim = claim("name");
    granted(&lock, &claim).await;
    released(&lock, &claim).await;

    for (what, query) in [
        ("an authority that did not sign", format!("tls_ca={other}&tls_cert={ca}&tls_key={key}")),
        ("a client without a certificate", format!("tls_ca={ca}")),
        ("a client with a wrong one", format!("tls_ca={ca}&tls_cert={other}&tls_key={other_key}")),
    ] {
        let url = format!("etcds://127.0.0.1:{port}?connect_timeout=2s&{query}");
        let connect = EtcdLock::connect(EtcdConfig::from_url(&url).expect("a URL"));
        let error = within(Duration::from_secs(5), what, connect).await.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{what}: {error:?}");
        assert!(error.message().contains("tls_c"), "{what}: {error}");
    }
    let plain = EtcdConfig::from_url(&format!("etcd://127.0.0.1:{port}?connect_timeout=2s")).expect("a URL");
    let error = EtcdLock::connect(plain).await.expect_err("TLS is wanted");
    assert!(error.message().contains("etcds://"), "{error}");
}
