//! What is sent on a session that one claim has for itself: for an advisory lock, or for a row.

use std::sync::Arc;

use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::key::{Key, Target};
use crate::row::RowSql;
use crate::session::Line;
use crate::statements::Advisory;

/// One name, and the statements that lock it.
#[derive(Debug, Clone)]
pub(crate) enum Locking {
    Advisory(Arc<Advisory>, Key),
    Row(Arc<RowSql>),
}

impl Locking {
    /// What the session then holds.
    pub(crate) fn target(&self) -> Target {
        match self {
            Self::Advisory(_, key) => Target::Key(*key),
            Self::Row(_) => Target::Row,
        }
    }

    /// What a session for it prepares ahead, so that the wait itself is written in one go.
    pub(crate) fn prepared(&self) -> Vec<&str> {
        match self {
            Self::Advisory(sql, key) => sql.for_waits(*key).to_vec(),
            Self::Row(_) => Vec::new(),
        }
    }

    /// Tries once and answers the token's number, or `None` when the name is held.
    pub(crate) async fn attempt(&self, line: &mut Line) -> Result<Option<i64>, sqlx::Error> {
        match self {
            Self::Advisory(sql, key) => line.fetch(sql.try_lock(*key)).await?.try_get(0),
            Self::Row(sql) => sql.attempt(line).await,
        }
    }

    /// Waits in the server's queue and answers the token's number.
    pub(crate) async fn wait(&self, line: &mut Line) -> Result<i64, sqlx::Error> {
        match self {
            Self::Advisory(sql, key) => line.fetch(sql.wait_for(*key)).await?.try_get(0),
            Self::Row(sql) => sql.wait(line, sql.first()).await,
        }
    }

    /// The same after a wait that has failed, in one flight: what that may have taken is given back first.
    pub(crate) async fn wait_again(&self, line: &mut Line) -> Result<i64, sqlx::Error> {
        match self {
            Self::Advisory(sql, key) => {
                let row = line.raw(sql.wait_again(*key)).await?;
                row.ok_or(sqlx::Error::RowNotFound)?.try_get(0)
            }
            Self::Row(sql) => sql.wait(line, sql.again()).await,
        }
    }

    /// Makes the session good for another attempt after a statement of it has failed; gives back what it may have taken.
    pub(crate) async fn recover(&self, line: &mut Line) -> Result<(), sqlx::Error> {
        self.give_back(line).await.map(drop)
    }

    /// Gives the name back; whether the session had it.
    pub(crate) async fn give_back(&self, line: &mut Line) -> Result<bool, sqlx::Error> {
        match self {
            Self::Advisory(sql, key) => line.fetch(sql.unlock(*key)).await?.try_get(0),
            Self::Row(sql) => sql.give_back(line).await,
        }
    }

    /// A statement that changes nothing: its answer proves that the session lives.
    pub(crate) async fn refresh(&self, line: &mut Line) -> Result<Option<PgRow>, sqlx::Error> {
        line.raw("SELECT 1".into()).await
    }
}
