//! Series that stay flat, that grow, and that leak, and what is said of them.

use super::*;

fn series(value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    (1..=400)
        .map(|n| (f64::from(n) * 5.0, value(f64::from(n) * 5.0)))
        .collect()
}

#[test]
fn a_rise_is_that_of_the_second_half() {
    let (mean, grown) = rise(&series(|at| at.min(1000.0))).unwrap();
    assert!((mean - 1000.0).abs() < 1e-6 && grown.abs() < 1e-6, "{mean} {grown}");
    let (_, grown) = rise(&series(|at| 7.0 + at / 10.0)).unwrap();
    assert!((grown - 100.0).abs() < 1e-6, "{grown}");
    // A peak counts for little.
    let (_, grown) = rise(&series(|at| if at == 1500.0 { 5000.0 } else { 1000.0 })).unwrap();
    assert!(grown.abs() < 60.0, "{grown}");
    assert!(rise(&[]).is_none() && rise(&[(5.0, 1.0)]).is_none());
}

fn sample(at: f64, memory: f64, descriptors: u64) -> Sample {
    let held = Held {
        memory: memory as u64,
        descriptors,
        threads: 3,
        tasks: 20,
    };
    Sample {
        at,
        relay: held,
        agents: held,
        lasting: held,
        holders: 8,
        files: 30,
    }
}

fn judged(samples: &[Sample], change: impl FnOnce(&mut Seen<'_>)) -> Vec<String> {
    let rest = sample(0.0, 20_000.0, 15);
    let mut seen = Seen {
        samples,
        rest: &rest,
        after: &rest,
        failures: 0,
        left: Vec::new(),
        lost_idle: 0,
    };
    change(&mut seen);
    judge(&seen).missed()
}

#[test]
fn what_is_flat_is_good_and_each_fault_is_named() {
    let flat: Vec<Sample> = series(|_| 20_000.0).iter().map(|(at, m)| sample(*at, *m, 15)).collect();
    assert_eq!(judged(&flat, |_| ()), Vec::<String>::new());

    // 600 kB in the second half: more than 512 kB and than 2 % of 20 MB.
    let leak: Vec<Sample> = flat.iter().map(|s| sample(s.at, 20_000.0 + s.at * 0.6, 15)).collect();
    let missed = judged(&leak, |_| ());
    assert_eq!(missed.len(), 3, "{missed:?}");
    assert!(
        missed[0].starts_with("memory of the relay (PSS): 599.") || missed[0].contains("600."),
        "{missed:?}"
    );

    let fds: Vec<Sample> = flat
        .iter()
        .map(|s| sample(s.at, 20_000.0, 15 + (s.at / 200.0) as u64))
        .collect();
    let missed = judged(&fds, |_| ());
    assert!(
        missed[0].starts_with("descriptors of the relay: 5.") || missed[0].contains("4."),
        "{missed:?}"
    );

    for (change, named) in [
        (
            (|seen: &mut Seen<'_>| seen.failures = 1) as fn(&mut Seen<'_>),
            "sessions that did not end",
        ),
        (|seen| seen.left.push("process 7".to_owned()), "left over"),
        (|seen| seen.lost_idle = 2, "idle agents"),
    ] {
        let missed = judged(&flat, change);
        assert!(missed.len() == 1 && missed[0].contains(named), "{missed:?}");
    }
    let more = sample(0.0, 90_000.0, 16);
    let missed = judge(&Seen {
        samples: &flat,
        rest: &flat[0],
        after: &more,
        failures: 0,
        left: Vec::new(),
        lost_idle: 0,
    })
    .missed();
    // Memory at rest is the allocator's own; a descriptor is not.
    assert_eq!(missed.len(), 3, "{missed:?}");
    assert!(
        missed.iter().all(|line| line.starts_with("descriptors of")),
        "{missed:?}"
    );
}

#[test]
fn without_samples_nothing_is_called_flat() {
    assert!(
        judged(&[], |_| ())
            .iter()
            .any(|line| line.starts_with("memory of the relay"))
    );
}
