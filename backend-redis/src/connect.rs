//! Opening a connection: address, credentials, TLS, and where what arrives unasked goes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockyard_api::{Error, Result, TlsFiles};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, TlsCertificates, Value,
};

use crate::RedisConfig;
use crate::error::{Failure, unconnected};
use crate::reply::Handed;
use crate::server;
use crate::waiters::Waiters;

/// One open connection to a server that can hold locks.
pub(crate) struct Connection {
    pub(crate) id: u64,
    pub(crate) wire: MultiplexedConnection,
    /// Set when it has ended or cannot be relied on any more.
    pub(crate) broken: Arc<AtomicBool>,
    /// Whether the server has confirmed that wake-ups come over it.
    pub(crate) subscribed: AtomicBool,
    /// Whether the server keeps what it has answered across a crash.
    pub(crate) durable: bool,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("id", &self.id).field("broken", &self.broken).finish_non_exhaustive()
    }
}

/// The driver's view of a configuration.
///
/// # Errors
/// `Config` for TLS files that cannot be read.
pub(crate) fn client(config: &RedisConfig) -> Result<Client> {
    let mut login = RedisConnectionInfo::default()
        .set_db(config.db)
        .set_protocol(ProtocolVersion::RESP3)
        .set_lib_name("lockyard", env!("CARGO_PKG_VERSION"));
    if let Some(user) = &config.user {
        login = login.set_username(user);
    }
    if let Some(password) = &config.password {
        login = login.set_password(password);
    }
    let (host, port) = (config.host.clone(), config.port);
    let addr = match config.tls {
        None => ConnectionAddr::Tcp(host, port),
        Some(_) => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
    };
    let invalid = |e: redis::RedisError| Error::config(format!("cannot use this server address: {e}"));
    let info: ConnectionInfo = addr.into_connection_info().map_err(invalid)?;
    // Off by default in this driver; without it a request waits for the acknowledgement of the one before.
    let info = info.set_redis_settings(login).set_tcp_settings(TcpSettings::default().set_nodelay(true));
    match &config.tls {
        None => Client::open(info).map_err(invalid),
        Some(files) => tls_client(info, files),
    }
}

fn tls_client(info: ConnectionInfo, files: &TlsFiles) -> Result<Client> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails only when another thread has just installed one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let client_tls = match (&files.cert, &files.key) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? }),
        _ => return Err(Error::config("tls_cert and tls_key belong together: give both or none")),
    };
    let root_cert = files.ca.as_deref().map(read).transpose()?;
    Client::build_with_tls(info, TlsCertificates { client_tls, root_cert })
        .map_err(|e| Error::config(format!("the TLS files cannot be used: {e}")))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| Error::config(format!("cannot read {}: {e}", path.display())).with_source(e))
}

/// Opens a connection whose wake-ups go to `waiters`, and checks the server.
///
/// # Cancel safety
/// Dropped, it leaves nothing.
pub(crate) async fn open(
    client: &Client,
    config: &RedisConfig,
    id: u64,
    waiters: &Arc<Waiters>,
) -> Result<Connection, Failure> {
    let address = config.address();
    let broken = Arc::new(AtomicBool::new(false));
    let settings = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(config.connect_timeout))
        .set_response_timeout(Some(config.op_timeout))
        // One slot a caller that is about to send; the default of 50 makes hundreds of waiters queue up twice.
        .set_pipeline_buffer_size(1024)
        .set_push_sender(receive(id, Arc::clone(waiters), Arc::clone(&broken)));
    let wire = client
        .get_multiplexed_async_connection_with_config(&settings)
        .await
        .map_err(|error| unconnected(error, &address))?;
    let mut connection = Connection { id, wire, broken, subscribed: AtomicBool::new(false), durable: false };
    connection.durable = server::check(&connection.wire, &address).await?;
    Ok(connection)
}

/// What arrives unasked: grants, and the end of the connection.
fn receive(
    id: u64,
    waiters: Arc<Waiters>,
    broken: Arc<AtomicBool>,
) -> impl Fn(PushInfo) -> std::result::Result<(), redis::aio::SendError> + Send + Sync {
    move |push| {
        match push.kind {
            PushKind::Disconnection => {
                broken.store(true, Ordering::SeqCst);
                waiters.disconnected(id);
            }
            PushKind::Message => {
                if let [_, Value::BulkString(message)] = push.data.as_slice()
                    && let Some(handed) = Handed::parse(message)
                {
                    waiters.handed(id, handed);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
