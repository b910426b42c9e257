//! What the tests of this crate share: a header, and recordings in a temporary folder.

use std::path::Path;

use noderelay_pki::identity::Identity;
use noderelay_pki::name::{ClusterName, GroupName, NodeName, ProfileName};

use crate::read::{Event, Timed};
use crate::{Argument, Claimed, Header, Level, Reader, SessionId, SessionKind, SessionStarted, Stream, Terminal};

pub(crate) fn header(level: Level, terminal: Option<(u16, u16)>) -> Header {
    let session = SessionStarted {
        session: SessionId([0xcd; 16]),
        cluster: ClusterName::parse("alpha").unwrap(),
        node: NodeName::parse("gpu-1").unwrap(),
        principal: Identity::parse("spiffe://example.org/cluster/alpha/user/alice%40example.org").unwrap(),
        key_fingerprint: "00ff".to_owned(),
        groups: vec![GroupName::parse("oncall").unwrap()],
        kind: SessionKind::Exec,
        argv: vec!["printf".into(), Argument::from(&b"a\xffb"[..]), "".into()],
        profile: ProfileName::parse("diagnostic").unwrap(),
        account: "noderelay-diagnostic".to_owned(),
        policy_version: 7,
        rules: vec!["on-call-diagnostic".to_owned()],
        reason: Some("INC-7".to_owned()),
        level,
        started: "2030-05-06T07:08:09.123456Z".parse().unwrap(),
        claimed: Claimed {
            path: Some("relay".to_owned()),
            correlation_id: None,
        },
    };
    let terminal = terminal.map(|(cols, rows)| Terminal {
        cols,
        rows,
        term: "xterm".to_owned(),
    });
    Header::new(session, terminal)
}

pub(crate) const NAME: &str = "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd.cast";

pub(crate) fn events(path: &Path) -> Vec<Timed> {
    Reader::open(path).unwrap().collect::<Result<_, _>>().unwrap()
}

pub(crate) fn output(events: &[Timed], stream: Stream) -> Vec<u8> {
    let pieces = events.iter().filter_map(|timed| match &timed.event {
        Event::Output(of, bytes) if *of == stream => Some(bytes.as_slice()),
        _ => None,
    });
    pieces.collect::<Vec<_>>().concat()
}
