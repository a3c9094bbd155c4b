//! One connection of the driver that also notices its own end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgListener, PgRow};
use sqlx::query::Query;
use sqlx::{Acquire, ConnectOptions, Connection, PgConnection, Postgres};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// A statement with its parameters.
pub(crate) type Statement = Query<'static, Postgres, PgArguments>;

/// A connection that can be listened to while it is idle: only the driver's `PgListener` offers that.
///
/// It listens on no channel: a session that holds locks and is sent notifications could fill its client's socket while the
/// client hangs, and then the server's idle timeout never fires.
///
/// A `PgListener` that has once reported the end of its connection silently makes a new one in the next statement; whoever
/// sees [`Wire::ended`] finish drops the wire.
pub(crate) struct Wire {
    listener: Option<PgListener>,
    runtime: Handle,
    /// Its part of what the client may open.
    _permit: OwnedSemaphorePermit,
}

impl Wire {
    pub(crate) async fn open(
        server: &PgConnectOptions,
        limit: Duration,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, sqlx::Error> {
        let pool = PoolOptions::<Postgres>::new()
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .test_before_acquire(false)
            .acquire_timeout(limit)
            .connect_lazy_with(server.clone());
        let mut listener = told_early(PgListener::connect_with(&pool), server).await?;
        listener.ignore_pool_close_event(true);
        listener.eager_reconnect(false);
        Ok(Self { listener: Some(listener), runtime: Handle::current(), _permit: permit })
    }

    async fn connection(&mut self) -> Result<&mut PgConnection, sqlx::Error> {
        match &mut self.listener {
            Some(listener) => listener.acquire().await,
            None => Err(sqlx::Error::PoolClosed),
        }
    }

    pub(crate) async fn fetch(&mut self, statement: Statement) -> Result<PgRow, sqlx::Error> {
        statement.fetch_one(self.connection().await?).await
    }

    /// Runs statements in the simple protocol, in one flight; the first row that any of them returns.
    pub(crate) async fn raw(&mut self, sql: Arc<str>) -> Result<Option<PgRow>, sqlx::Error> {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).fetch_optional(self.connection().await?).await
    }

    /// Lets the server parse a statement ahead of its first use.
    pub(crate) async fn prepare(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        use sqlx::{AssertSqlSafe, Executor};
        self.connection().await?.prepare(sqlx::SqlSafeStr::into_sql_str(AssertSqlSafe(sql))).await.map(drop)
    }

    /// Ends when the connection has. May be dropped at any time; the wire is then as before.
    pub(crate) async fn ended(&mut self) {
        let Some(listener) = &mut self.listener else { return };
        // A notification is impossible without a channel, and would mean nothing.
        while let Ok(Some(_)) = listener.try_recv().await {}
    }
}

/// The driver's pool goes on trying while the server refuses; a plain connection that fails says at once why.
async fn told_early(
    opening: impl Future<Output = Result<PgListener, sqlx::Error>>,
    server: &PgConnectOptions,
) -> Result<PgListener, sqlx::Error> {
    const USUALLY_DONE_BY: Duration = Duration::from_millis(100);
    let mut opening = std::pin::pin!(opening);
    if let Ok(opened) = timeout(USUALLY_DONE_BY, &mut opening).await {
        return opened;
    }
    let diagnosis = std::pin::pin!(async {
        if let Ok(connection) = server.connect().await {
            let _closed = connection.close().await;
            std::future::pending().await
        }
        server.connect().await.map(drop)
    });
    match select(opening, diagnosis).await {
        Either::Left((opened, _)) => opened,
        Either::Right((Err(error), _)) => Err(error),
        Either::Right((Ok(()), opening)) => opening.await,
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // The driver closes from a task, which it spawns here: wherever the last owner is dropped, there must be a runtime.
        let _entered = self.runtime.enter();
        self.listener.take();
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}
