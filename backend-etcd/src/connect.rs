//! Opening a connection, and finding out whether locks can be held there.

use std::fs;
use std::path::Path;
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use lockyard_api::{Error, ErrorKind, Operation, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::EtcdConfig;
use crate::error::Failure;
use crate::keys::KeySpace;
use crate::rpc::Rpc;

/// The oldest version with range comparisons and watch filters as they are used here.
const OLDEST: (u32, u32) = (3, 4);
/// Pings on a quiet connection with open streams: how a connection that died silently is found out. The server counts
/// more than one in 5 s as an attack (`--grpc-keepalive-min-time`).
const PING_EVERY: Duration = Duration::from_secs(6);
const PING_TIMEOUT: Duration = Duration::from_secs(4);
/// The type of HTTP/2's first frame.
const SETTINGS: u8 = 4;

/// Connects and checks version, role and login.
pub(crate) async fn open(config: &EtcdConfig, keys: &KeySpace) -> Result<Rpc> {
    let options = options(config)?;
    let limit = config.options.connect_timeout;
    let servers = config.servers();
    let open = async {
        match connect(config, options, keys).await {
            Err(error) if error.kind() == ErrorKind::Unreachable && !config.tls && is_something_else(config).await => {
                let text = format!(
                    "what answers at {servers} does not speak etcd's protocol: is the port right, or does it want TLS \
                     (etcds://)?"
                );
                Err(Error::new(ErrorKind::WrongServer, text).with_source(error).not_applied())
            }
            opened => opened,
        }
    };
    timeout(limit, open)
        .await
        .unwrap_or_else(|_| {
            let text = format!(
                "no answer from etcd at {servers} within {limit:?}: is it running, and does a firewall let port \
                 numbers through? connect_timeout in the URL gives it more time"
            );
            Err(Error::new(ErrorKind::Unreachable, text).not_applied())
        })
        .map_err(|error| error.with_operation(Operation::Connect))
}

async fn connect(config: &EtcdConfig, options: ConnectOptions, keys: &KeySpace) -> Result<Rpc> {
    let servers = config.servers();
    let client = Client::connect(config.endpoints(), Some(options))
        .await
        .map_err(|error| explain(Failure::new("connecting", error), &servers))?;
    let rpc = Rpc::new(client, config.hosts.len());
    check(&rpc, keys, &servers).await.map_err(|error| with_tls_in_mind(config, error))?;
    Ok(rpc)
}

/// A failed handshake looks like a broken connection from here.
fn with_tls_in_mind(config: &EtcdConfig, error: Error) -> Error {
    if !config.tls || error.kind() != ErrorKind::Unreachable {
        return error;
    }
    let text = format!(
        "{}; with TLS: does it speak TLS there, did tls_ca sign its certificate, does it want tls_cert and tls_key?",
        error.message()
    );
    Error::new(error.kind(), text).with_source(error).not_applied()
}

/// Whether a host answers what no HTTP/2 server answers first. The client library only says that the connection closed.
async fn is_something_else(config: &EtcdConfig) -> bool {
    for address in config.addresses() {
        // A failure is what the first attempt said already.
        if first_frame(&address).await.is_ok_and(|kind| kind != SETTINGS) {
            return true;
        }
    }
    false
}

/// The type of the first frame that the server sends, which is SETTINGS
/// (<https://www.rfc-editor.org/rfc/rfc9113#section-3.4>).
async fn first_frame(address: &str) -> std::io::Result<u8> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await?;
    // Length in three bytes, then the type. A TLS alert is shorter than a whole header.
    let mut header = [0; 4];
    stream.read_exact(&mut header).await?;
    Ok(header[3])
}

fn options(config: &EtcdConfig) -> Result<ConnectOptions> {
    let mut options = ConnectOptions::new()
        .with_require_leader(true)
        .with_connect_timeout(config.options.connect_timeout)
        .with_keep_alive(PING_EVERY, PING_TIMEOUT)
        .with_keep_alive_while_idle(false);
    if let Some((user, password)) = &config.login {
        options = options.with_user(user, password).with_auto_token_refresh(true);
    }
    if config.tls {
        options = options.with_tls(tls(config)?);
    }
    Ok(options)
}

fn tls(config: &EtcdConfig) -> Result<TlsOptions> {
    let files = &config.options.tls;
    let mut tls = TlsOptions::new();
    if let Some(ca) = &files.ca {
        tls = tls.ca_certificate(Certificate::from_pem(read("tls_ca", ca)?));
    }
    if let (Some(cert), Some(key)) = (&files.cert, &files.key) {
        tls = tls.identity(Identity::from_pem(read("tls_cert", cert)?, read("tls_key", key)?));
    }
    Ok(tls)
}

fn read(key: &str, file: &Path) -> Result<Vec<u8>> {
    fs::read(file).map_err(|e| Error::config(format!("{key}: cannot read {}: {e}", file.display())).with_source(e))
}

async fn check(rpc: &Rpc, keys: &KeySpace, servers: &str) -> Result<()> {
    let status = rpc.status().await.map_err(|failure| explain(failure, servers))?;
    let wrong = |text: String| Err(Error::new(ErrorKind::WrongServer, text).not_applied());
    if version(status.version()).is_some_and(|version| version < OLDEST) {
        let (major, minor) = OLDEST;
        return wrong(format!(
            "etcd at {servers} is version {}: locks need {major}.{minor} or later, upgrade the cluster",
            status.version()
        ));
    }
    if status.is_learner() {
        return wrong(format!("etcd at {servers} is a learner and serves no locks: name a voting member"));
    }
    if status.leader() == 0 {
        let text = format!("the etcd cluster of {servers} has no leader: it has lost its majority or is electing");
        return Err(Error::new(ErrorKind::Unreachable, text).not_applied());
    }
    rpc.probe(keys.base()).await.map_err(|failure| explain(failure, servers))
}

/// Major and minor, if it is written as a version; what is not is not refused.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The failure with the servers and what to do about it. Nothing was locked yet.
fn explain(failure: Failure, servers: &str) -> Error {
    let text = failure.message();
    let text = match failure.kind() {
        ErrorKind::Auth if text.contains("not enabled") => format!(
            "etcd at {servers} has no authentication enabled but the URL names a user: leave user and password out of \
             it, or run `etcdctl auth enable` ({text})"
        ),
        ErrorKind::Auth if text.contains("user name is empty") => {
            format!("etcd at {servers} wants a login: write etcd://USER:PASSWORD@… ({text})")
        }
        ErrorKind::Auth if text.contains("permission denied") => format!(
            "the user may not read below the lock prefix on etcd at {servers}: grant its role readwrite on the prefix \
             (`etcdctl role grant-permission ROLE readwrite PREFIX --prefix=true`) ({text})"
        ),
        ErrorKind::Auth => format!("etcd at {servers} refused the login: check user and password ({text})"),
        ErrorKind::Unreachable => format!("etcd at {servers} cannot be reached: is it running there? ({text})"),
        ErrorKind::WrongServer => format!("what answers at {servers} is no etcd of version 3 ({text})"),
        _ => format!("etcd at {servers}: {text}"),
    };
    Error::new(failure.kind(), text).with_source(failure.into_error()).not_applied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert!(version("3.3.27").is_some_and(|v| v < OLDEST));
        for fine in ["3.4.0", "3.10.1", "v3.5.0-rc.0", "4.0"] {
            assert!(version(fine).is_some_and(|v| v >= OLDEST), "{fine}");
        }
        assert_eq!(version("HEAD"), None);
    }
}
