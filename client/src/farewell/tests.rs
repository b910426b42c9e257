//! The wait for the node's end: as long as needed, never longer than its limit.

use std::time::Duration;

use tokio::io::{AsyncWriteExt, duplex};

use super::{LIMIT, until_end};

#[tokio::test]
async fn the_wait_ends_with_the_nodes_side_and_throws_away_what_still_comes() {
    let (mut ours, mut node) = duplex(16);
    let script = async move {
        // Thrown away, or the node could not get to its end.
        node.write_all(&[0; 5000]).await.unwrap();
        node.shutdown().await.unwrap();
        // It keeps its reading half open.
        node
    };
    // No limit that could end it: only the node's end does.
    let (_node, ended) = tokio::join!(script, until_end(&mut ours, Duration::from_secs(3600)));
    assert!(ended);
}

#[tokio::test]
async fn a_node_that_never_ends_costs_the_limit() {
    let (mut ours, _node) = duplex(16);
    assert!(!until_end(&mut ours, LIMIT).await);
}
