use std::{sync::mpsc, time::Duration};

use super::*;

/// Gives zeros, and says when it is dropped.
struct Endless(mpsc::Sender<()>);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        buffer.fill(0);
        Ok(buffer.len())
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn runs_ahead_as_far_as_its_buffers_and_ends_when_nobody_reads() {
    let (sender, ended) = mpsc::channel();
    let inflate = Inflate::spawn(Endless(sender), &Limits::default(), Arc::default()).unwrap();
    for _ in 0..BUFFERS {
        match inflate.messages.recv().unwrap() {
            Message::Chunk(buffer, filled) => assert_eq!((buffer.len(), filled), (BUFFER, BUFFER)),
            Message::End(outcome) => panic!("{outcome:?}"),
        }
    }
    // All buffers are here: there is nothing to fill.
    assert!(inflate.messages.recv_timeout(Duration::from_millis(50)).is_err());
    drop(inflate);
    ended.recv_timeout(Duration::from_secs(30)).unwrap();
}

#[test]
fn buffers_are_used_again() {
    let (sender, _ended) = mpsc::channel();
    let inflate = Inflate::spawn(Endless(sender), &Limits::default(), Arc::default()).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let Message::Chunk(buffer, _) = inflate.messages.recv().unwrap() else {
            panic!("it has ended")
        };
        seen.insert(buffer.as_ptr() as usize);
        inflate.spare.send(buffer).unwrap();
    }
    assert!(seen.len() <= BUFFERS, "{} buffers", seen.len());
}
