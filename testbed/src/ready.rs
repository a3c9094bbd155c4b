//! Whether a server answers, and which version does.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;

use crate::wire::{self, Greeting, Resp};
use crate::{Service, timing};

/// How long one question may take; a frozen server accepts connections and then says nothing.
const PATIENCE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(10);

/// Where a server is, and as whom to ask it.
#[derive(Clone)]
pub(crate) struct Contact {
    pub(crate) service: Service,
    pub(crate) addr: SocketAddr,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: Option<String>,
}

impl std::fmt::Debug for Contact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contact").field("service", &self.service).field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl Contact {
    pub(crate) fn new(service: Service, addr: SocketAddr) -> Self {
        Self { service, addr, user: None, password: None, database: None }
    }

    /// The version of the server if it serves requests; an empty string when it answers but does not say.
    pub(crate) async fn version(&self) -> io::Result<String> {
        timeout(timing::scaled(PATIENCE), self.probe()).await?
    }

    /// Asks until it answers, for at most `limit` times the time factor, or until it is no longer `alive`.
    pub(crate) async fn version_in(
        &self,
        limit: Duration,
        alive: impl Fn() -> bool + Send + Sync,
    ) -> Result<String, String> {
        let limit = timing::scaled(limit);
        let mut last = "it was not asked".to_owned();
        let asking = async {
            let mut polls = timing::pace(POLL);
            loop {
                polls.tick().await;
                match self.version().await {
                    Ok(version) => return Ok(version),
                    Err(error) => last = error.to_string(),
                }
                if !alive() {
                    return Err(format!("it ended at once; {last}"));
                }
            }
        };
        let asked = timeout(limit, asking).await;
        asked.unwrap_or_else(|_| Err(format!("not ready within {limit:?}: {last}")))
    }

    async fn probe(&self) -> io::Result<String> {
        match self.service {
            Service::Redis => self.redis().await,
            Service::Postgres => self.postgres().await,
            Service::Etcd => self.etcd().await,
            Service::Zookeeper => self.zookeeper().await,
        }
    }

    /// A connection to Redis, authenticated when there is a password.
    pub(crate) async fn resp(&self) -> io::Result<Resp> {
        let mut resp = Resp::connect(self.addr).await?;
        match (&self.user, &self.password) {
            (Some(user), Some(password)) => resp.call(&["AUTH", user, password]).await?,
            (None, Some(password)) => resp.call(&["AUTH", password]).await?,
            _ => return Ok(resp),
        };
        Ok(resp)
    }

    /// `PING`, which a server that still loads its data refuses.
    async fn redis(&self) -> io::Result<String> {
        let mut resp = self.resp().await?;
        resp.call(&["PING"]).await?;
        Ok(after(&resp.call(&["INFO", "server"]).await?, "redis_version:"))
    }

    async fn postgres(&self) -> io::Result<String> {
        let user = self.user.as_deref().unwrap_or("postgres");
        let database = self.database.as_deref().unwrap_or(user);
        match wire::postgres_greeting(self.addr, user, database).await? {
            Greeting::Welcome(version) => Ok(version),
            Greeting::Guarded => Ok(String::new()),
            Greeting::NotYet => Err(io::Error::other("it is starting up")),
        }
    }

    /// `/health` is true once there is a leader.
    async fn etcd(&self) -> io::Result<String> {
        let health = wire::http_get(self.addr, "/health").await?;
        if !health.contains(r#""health":"true""#) {
            return Err(io::Error::other(format!("its health is {health}")));
        }
        Ok(after(&wire::http_get(self.addr, "/version").await?, r#""etcdserver":""#))
    }

    /// `srvr` names the mode once requests are served; `ruok` answers too early.
    async fn zookeeper(&self) -> io::Result<String> {
        let answer = wire::four_letters(self.addr, "srvr").await?;
        if !answer.contains("Mode:") {
            return Err(io::Error::other(answer.lines().next().unwrap_or("no answer").to_owned()));
        }
        Ok(after(&answer, "Zookeeper version: "))
    }
}

/// The version number that follows `label` in `text`.
fn after(text: &str, label: &str) -> String {
    let rest = text.split_once(label).map_or("", |(_, rest)| rest);
    rest.chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '.').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_ends_where_its_letters_end() {
        assert_eq!(after("Zookeeper version: 3.8.0-${x}, built", "Zookeeper version: "), "3.8.0");
        assert_eq!(after(r#"{"etcdserver":"3.4.23","etcdcluster":"3.4.0"}"#, r#""etcdserver":""#), "3.4.23");
        assert_eq!(after("nothing", "redis_version:"), "");
    }
}
