//! Fuzz bodies: the first bytes of a stream, and the configuration. They never panic, and what passes keeps its promise.
//!
//! Plain functions over any bytes: ordinary tests run them over `relay/corpus/` and over mutated input, a fuzzer over anything.

use std::collections::BTreeSet;
use std::path::Path;

use bytes::BytesMut;
use noderelay_pki::RoleKind;
use noderelay_pki::name::ClusterName;
use noderelay_proto::{Frames, Opening, ProtocolError, RouteHeader, control};
use noderelay_service::fuzz::configuration;

use crate::Config;
use crate::route::{Hop, Lookup, Map, decide};

/// The first bytes of a stream, cut anywhere: one header, and behind it exactly what followed. An agent gets the same with one
/// hop less.
pub fn first_bytes(bytes: &[u8]) {
    let whole = opening(bytes, bytes.len().max(1));
    assert_eq!(whole, opening(bytes, 1), "the cut makes no difference");
    let Ok(Some((Opening::Route(header), rest))) = whole else {
        return;
    };
    let Some(map) = map() else { return };
    for role in RoleKind::ALL {
        let Ok(route) = decide(&map, role, &header, |_| Lookup::Attached(())) else {
            continue;
        };
        assert_eq!(route.hop, Hop::Agent(()));
        assert!(
            matches!(role, RoleKind::User | RoleKind::BreakGlass),
            "only people open sessions"
        );
        assert_eq!(
            (route.node.cluster.as_str(), route.node.node.as_str()),
            (&*header.cluster, &*header.node)
        );
        let mut onward = BytesMut::new();
        control::encode(&route.header, &mut onward);
        onward.extend_from_slice(&rest);
        let expected = RouteHeader {
            hop_limit: header.hop_limit.saturating_sub(1),
            ..header.clone()
        };
        assert_eq!(
            opening(&onward, onward.len()),
            Ok(Some((Opening::Route(expected), rest.clone())))
        );
    }
}

/// A configuration file. What passes is written as one that says the same.
pub fn config(bytes: &[u8]) {
    let path = Path::new("/etc/noderelay/relay.yaml");
    let _ = configuration(bytes, |bytes| Config::parse(bytes, path));
}

/// The first message, and what follows it.
fn opening(bytes: &[u8], piece: usize) -> Result<Option<(Opening, Vec<u8>)>, ProtocolError> {
    let mut frames = Frames::<Opening>::new();
    let mut unread = bytes;
    for chunk in bytes.chunks(piece) {
        frames.push(chunk);
        unread = unread.get(chunk.len()..).unwrap_or_default();
        if let Some(opening) = frames.next()? {
            return Ok(Some((opening, [frames.into_rest().as_ref(), unread].concat())));
        }
    }
    frames.finish().map(|()| None)
}

fn map() -> Option<Map> {
    let home = ClusterName::parse("alpha").ok()?;
    Some(Map {
        clusters: BTreeSet::from([home.clone(), ClusterName::parse("beta").ok()?]),
        home,
    })
}
