//! SQL: a row remembers the largest token that has written it.

use lockyard::FencingToken;
use lockyard_testbed::Service;
use sqlx::{Connection, PgConnection, Postgres, Row, Transaction};

use crate::support::{Checked, paused_and_next, server, token};

const TABLES: &str = "
    CREATE TABLE report (day text PRIMARY KEY, body text NOT NULL, fence bigint NOT NULL);
    CREATE TABLE fence (lock text PRIMARY KEY, token bigint NOT NULL);";

/// Whether the report was saved: what a later holder has written stays as it is.
async fn save(db: &mut PgConnection, day: &str, body: &str, token: FencingToken) -> sqlx::Result<bool> {
    let saved = sqlx::query(
        "INSERT INTO report AS r (day, body, fence) VALUES ($1, $2, $3)
         ON CONFLICT (day) DO UPDATE SET body = $2, fence = $3 WHERE r.fence <= $3",
    )
    .bind(day)
    .bind(body)
    .bind(token.get().cast_signed()) // tokens are below 2^63
    .execute(db)
    .await?;
    Ok(saved.rows_affected() == 1)
}

/// A transaction on whatever tables, or `None` when a later holder has been here. Its first statement locks the fence's
/// row: nobody with another token writes until it ends.
async fn fenced<'a>(
    db: &'a mut PgConnection,
    lock: &str,
    token: FencingToken,
) -> sqlx::Result<Option<Transaction<'a, Postgres>>> {
    let mut work = db.begin().await?;
    let raised = sqlx::query(
        "INSERT INTO fence AS f (lock, token) VALUES ($1, $2)
         ON CONFLICT (lock) DO UPDATE SET token = $2 WHERE f.token <= $2",
    )
    .bind(lock)
    .bind(token.get().cast_signed())
    .execute(&mut *work)
    .await?;
    Ok((raised.rows_affected() == 1).then_some(work))
}

#[tokio::test]
async fn a_late_holder_changes_no_row() -> Checked {
    let Some(server) = server(Service::Postgres).await? else { return Ok(()) };
    let (paused, next) = paused_and_next(&format!("{}?lock=lease", server.lock_url()), "report").await?;
    let (old, new) = (token(&paused)?, token(&next)?);
    let mut db = PgConnection::connect(&server.url()).await?;
    sqlx::raw_sql(TABLES).execute(&mut db).await?;

    assert!(save(&mut db, "monday", "next", new).await?);
    assert!(save(&mut db, "monday", "next, again", new).await?);
    assert!(!save(&mut db, "monday", "late", old).await?);
    let body: String = sqlx::query("SELECT body FROM report").fetch_one(&mut db).await?.try_get(0)?;
    assert_eq!(body, "next, again");

    let work = fenced(&mut db, "report", new).await?.ok_or("the holder is refused")?;
    work.commit().await?;
    assert!(fenced(&mut db, "report", old).await?.is_none());
    Ok(())
}
