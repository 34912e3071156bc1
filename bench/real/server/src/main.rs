//! A server in Rust: axum on tokio with two threads. Answers are JSON; the
//! newest are kept in a map that all requests share.
//!
//! ```text
//! bench-server PORT
//! ```
//!
//! Ends at SIGTERM.

use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::signal::unix::{signal, SignalKind};

const KEPT: u64 = 500;

#[derive(Clone, Serialize)]
struct Row {
    id: u64,
    name: String,
    tags: Vec<String>,
    attributes: BTreeMap<String, String>,
}

type Rows = Arc<Vec<Row>>;
type Kept = Arc<Mutex<(u64, BTreeMap<u64, Rows>)>>;

fn row(id: u64) -> Row {
    Row {
        id,
        name: format!("item number {id}"),
        tags: (3..8).map(|k| format!("t{}", id % k)).collect(),
        attributes: (0..id % 4)
            .map(|k| (format!("key {k}"), "value ".repeat(k as usize + 1)))
            .collect(),
    }
}

async fn rows(Path(start): Path<u64>, State(kept): State<Kept>) -> Json<Vec<Row>> {
    let rows: Rows = Arc::new((start..start + 80).map(row).collect());
    let mut held = kept.lock().unwrap();
    held.0 += 1;
    let slot = held.0 % KEPT;
    let old = held.1.insert(slot, rows.clone());
    drop(held);
    drop(old);
    Json(rows.iter().rev().cloned().collect())
}

#[tokio::main(worker_threads = 2)]
async fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_default();
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let routes = Router::new().route("/rows/:start", get(rows));
    let server = axum::serve(listener, routes.with_state(Kept::default()));
    let mut end = signal(SignalKind::terminate())?;
    tokio::select! {
        done = async { server.await } => done,
        _ = end.recv() => Ok(()),
    }
}
