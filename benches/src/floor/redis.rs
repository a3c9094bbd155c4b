//! Redis: the backend's own scripts through the bare driver, without a front end.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use lockyard_api::{LockUrl, Owner};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, PushInfo, PushKind,
    RedisConnectionInfo, Value,
};
use tokio::sync::mpsc;

use super::Floor;
use crate::side::{Contender, Contenders, Outcome, Side, Trouble};

const TTL_MS: u64 = 30_000;
const QUEUE_MS: u64 = 600_000;
/// A wake-up that is lost is made good by asking again.
const RECHECK: Duration = Duration::from_secs(2);
const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

pub(super) struct RedisFloor {
    client: Client,
    namespace: String,
}

impl RedisFloor {
    pub(super) fn new(url: &LockUrl, namespace: &str) -> Outcome<Self> {
        let host = url.hosts.first().ok_or_else(|| Trouble::new("the URL names no host"))?;
        let mut login = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
        if let Ok(db) = url.path.trim_start_matches('/').parse() {
            login = login.set_db(db);
        }
        if let Some(user) = &url.user {
            login = login.set_username(user);
        }
        if let Some(password) = &url.password {
            login = login.set_password(password);
        }
        let addr = ConnectionAddr::Tcp(host.name.clone(), host.port.unwrap_or(6379));
        let info = addr.into_connection_info()?.set_redis_settings(login);
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        Ok(Self { client: Client::open(info)?, namespace: namespace.to_owned() })
    }

    async fn session(&self) -> Outcome<Session> {
        let (told, messages) = mpsc::unbounded_channel();
        let settings = AsyncConnectionConfig::new().set_push_sender(told);
        let mut wire = self.client.get_multiplexed_async_connection_with_config(&settings).await?;
        let acquire = load(&mut wire, lockyard_redis::scripts::acquire()).await?;
        let release = load(&mut wire, lockyard_redis::scripts::release()).await?;
        Ok(Session {
            wire,
            acquire,
            release,
            prefix: format!("{}:floor-", self.namespace),
            owner: String::new(),
            queue: None,
            messages: Some(messages),
        })
    }

    async fn waiting(&self) -> Outcome<Session> {
        let mut session = self.session().await?;
        let channel = format!("{}floor:{}", lockyard_redis::scripts::CHANNEL_PREFIX, Owner::random());
        session.wire.subscribe(&channel).await?;
        session.queue = Some(format!("{channel} 1"));
        Ok(session)
    }
}

async fn load(wire: &mut MultiplexedConnection, script: &str) -> Outcome<String> {
    Ok(redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(wire).await?)
}

#[async_trait]
impl Side for RedisFloor {
    async fn one(&self) -> Outcome<Box<dyn Contender>> {
        Ok(Box::new(self.session().await?))
    }

    async fn shared(&self, tasks: usize) -> Outcome<Contenders> {
        let session = self.session().await?;
        Ok((0..tasks).map(|_| Box::new(session.sharing()) as Box<dyn Contender>).collect())
    }

    async fn own(&self, contenders: usize) -> Outcome<Contenders> {
        let mut all: Contenders = Vec::with_capacity(contenders);
        for _ in 0..contenders {
            all.push(Box::new(self.waiting().await?));
        }
        Ok(all)
    }
}

#[async_trait]
impl Floor for RedisFloor {
    async fn settings(&self) -> Outcome<BTreeMap<String, String>> {
        let mut wire = self.session().await?.wire;
        let mut settings = BTreeMap::new();
        for name in ["appendonly", "appendfsync", "save", "maxmemory-policy", "io-threads"] {
            // A server that forbids CONFIG just leaves them unsaid.
            let found: Result<BTreeMap<String, String>, _> =
                redis::cmd("CONFIG").arg("GET").arg(name).query_async(&mut wire).await;
            settings.extend(found.unwrap_or_default());
        }
        Ok(settings)
    }

    async fn beside(&self) -> Outcome<Option<(&'static str, Box<dyn Contender>)>> {
        let Session { mut wire, prefix, .. } = self.session().await?;
        let release = load(&mut wire, COMPARE_AND_DELETE).await?;
        let plain = Plain { wire, release, prefix, owner: String::new() };
        Ok(Some(("SET NX PX and compare-and-delete", Box::new(plain))))
    }
}

/// A connection that runs the scripts.
struct Session {
    wire: MultiplexedConnection,
    /// The digests of the scripts.
    acquire: String,
    release: String,
    prefix: String,
    owner: String,
    /// Channel and request number, when it waits.
    queue: Option<String>,
    messages: Option<mpsc::UnboundedReceiver<PushInfo>>,
}

impl Session {
    /// Another task on the same connection.
    fn sharing(&self) -> Self {
        Self {
            wire: self.wire.clone(),
            acquire: self.acquire.clone(),
            release: self.release.clone(),
            prefix: self.prefix.clone(),
            owner: String::new(),
            queue: None,
            messages: None,
        }
    }

    fn call(&self, digest: &str, name: &str) -> Cmd {
        let key = format!("{}{name}", self.prefix);
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(digest).arg(4).arg(&key);
        for part in ["token", "queue", "meta"] {
            cmd.arg(format!("{{{key}}}:{part}"));
        }
        cmd.arg(&self.owner);
        cmd
    }

    /// Waits for the message that names the owner; false when it is time to ask again.
    async fn told(&mut self) -> Outcome<bool> {
        let messages = self.messages.as_mut().ok_or_else(|| Trouble::new("this connection does not wait"))?;
        let mine = async {
            while let Some(push) = messages.recv().await {
                if push.kind == PushKind::Message
                    && let [_, Value::BulkString(text)] = push.data.as_slice()
                    && text.starts_with(self.owner.as_bytes())
                {
                    return Ok(true);
                }
            }
            Err(Trouble::new("the connection has ended"))
        };
        tokio::time::timeout(RECHECK, mine).await.unwrap_or(Ok(false))
    }
}

#[async_trait]
impl Contender for Session {
    async fn acquire(&mut self, name: &str) -> Outcome<()> {
        self.owner = Owner::random().to_string();
        let mut cmd = self.call(&self.acquire, name);
        cmd.arg(TTL_MS).arg("floor:1 ").arg(self.queue.as_deref().unwrap_or_default()).arg(QUEUE_MS);
        // The order of the arguments: owner, ttl, origin and label, channel and request, life of the queue.
        loop {
            match cmd.query_async(&mut self.wire).await? {
                Value::BulkString(_) => return Ok(()),
                Value::Array(_) => {
                    if self.told().await? {
                        return Ok(());
                    }
                }
                other => return Err(Trouble::new(format!("{name} is taken: {other:?}"))),
            }
        }
    }

    async fn release(&mut self, name: &str) -> Outcome<()> {
        let cmd = self.call(&self.release, name);
        let had: i64 = cmd.query_async(&mut self.wire).await?;
        if had == 1 { Ok(()) } else { Err(Trouble::new(format!("{name} was lost while it was held"))) }
    }
}

/// What most clients do: no token, no queue.
struct Plain {
    wire: MultiplexedConnection,
    release: String,
    prefix: String,
    owner: String,
}

#[async_trait]
impl Contender for Plain {
    async fn acquire(&mut self, name: &str) -> Outcome<()> {
        self.owner = Owner::random().to_string();
        let key = format!("{}plain-{name}", self.prefix);
        let mut cmd = redis::cmd("SET");
        cmd.arg(key).arg(&self.owner).arg("NX").arg("PX").arg(TTL_MS);
        let set: Option<String> = cmd.query_async(&mut self.wire).await?;
        set.map(|_| ()).ok_or_else(|| Trouble::new(format!("{name} is taken")))
    }

    async fn release(&mut self, name: &str) -> Outcome<()> {
        let key = format!("{}plain-{name}", self.prefix);
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.release).arg(1).arg(key).arg(&self.owner);
        let had: i64 = cmd.query_async(&mut self.wire).await?;
        if had == 1 { Ok(()) } else { Err(Trouble::new(format!("{name} was lost while it was held"))) }
    }
}
