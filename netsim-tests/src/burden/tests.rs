//! The lines of the kernel that say what a process takes.

use super::*;

#[test]
fn the_kernels_lines_are_read() {
    let text = "VmRSS:\t    1234 kB\nThreads:\t7\nPss:   \n";
    assert_eq!(number_in(text, "VmRSS:"), Some(1234));
    assert_eq!(number_in(text, "Threads:"), Some(7));
    assert_eq!(number_in(text, "Pss:"), None);
    assert_eq!(number_in(text, "VmSwap:"), None);
}

#[test]
fn this_process_has_what_it_has() {
    let me = std::process::id();
    let before = descriptors(me).unwrap();
    assert!(before >= 3, "{before}");
    assert!(threads(me).unwrap() >= 1 && resident(me).unwrap() > 100 && proportional(me).unwrap() > 100);
}
