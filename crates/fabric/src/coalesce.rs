//! Coalescing: messages to the same process are combined.
//!
//! # Contract
//! The message of a service is a *frame*; the transport carries *coalesced messages* of one or more
//! frames, which arrive in the order in which they were added. An added frame stays in the buffer
//! of its receiver until [`send_all`](Coalescer::send_all), or until the next frame would make the
//! buffer longer than [`MOST`] bytes. A frame that is longer than that by itself leaves at once. A
//! frame that is alone in its message is not copied.
//!
//! ```text
//!  message  | frame | frame | ...
//!  frame    | service (4) | bytes (4) | body ... | to the next multiple of 8
//! ```
//!
//! # Costs
//! Eight bytes per frame, and a copy of every frame but the first of a message. Sending a message
//! costs each end some microseconds of processor time, the same as copying ten thousand bytes.

use crate::failure_detector::FailureDetector;
use crate::transport::Transport;

/// The number of bytes before the body of a frame.
pub(crate) const HEADER: usize = 8;
/// The limit in bytes for a coalesced message of several frames.
pub(crate) const MOST: usize = 8 << 10;

/// The messages that wait to be sent: see the [module](self).
#[derive(Debug)]
pub(crate) struct Coalescer {
    /// The frames for each receiver.
    buffers: Vec<Vec<u8>>,
    /// The receivers whose buffers are not empty.
    filled: Vec<usize>,
    /// The number of coalesced messages that have left.
    sent: u64,
}

/// Starts a frame of a service.
pub(crate) fn begin(transport: &mut dyn Transport, service: u32) -> Vec<u8> {
    let mut frame = transport.buffer();
    frame.clear();
    frame.extend_from_slice(&u64::from(service).to_le_bytes());
    frame
}

/// Completes a frame: sets its length and pads it.
pub(crate) fn seal(frame: &mut Vec<u8>) {
    let len = u32::try_from(frame.len() - HEADER).expect("messages have less than 4 GiB");
    frame[4..HEADER].copy_from_slice(&len.to_le_bytes());
    frame.resize(frame.len().next_multiple_of(8), 0);
}

/// Splits off the first frame of a coalesced message: its service, its body, and the rest. `None`
/// if the bytes are not a frame.
pub(crate) fn first(message: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let (service, rest) = message.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let len = u32::from_le_bytes(*len) as usize;
    let body = rest.get(..len)?;
    Some((u32::from_le_bytes(*service), body, rest.get(len.next_multiple_of(8)..)?))
}

impl Coalescer {
    pub(crate) fn new(processes: usize) -> Coalescer {
        Coalescer { buffers: vec![Vec::new(); processes], filled: Vec::new(), sent: 0 }
    }

    /// Returns the number of coalesced messages that have left.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Adds a frame for a process.
    pub(crate) fn add(
        &mut self,
        transport: &mut dyn Transport,
        detector: &mut FailureDetector,
        to: usize,
        mut frame: Vec<u8>,
    ) {
        seal(&mut frame);
        let full = self.buffers[to].len() + frame.len() > MOST;
        if full && !self.buffers[to].is_empty() {
            self.filled.retain(|&other| other != to);
            self.send(transport, detector, to);
        }
        let message = &mut self.buffers[to];
        if message.is_empty() {
            *message = frame;
            self.filled.push(to);
        } else {
            message.extend_from_slice(&frame);
            transport.recycle(frame);
        }
        if self.buffers[to].len() > MOST {
            self.filled.pop();
            self.send(transport, detector, to);
        }
    }

    /// Sends all buffered frames.
    pub(crate) fn send_all(
        &mut self,
        transport: &mut dyn Transport,
        detector: &mut FailureDetector,
    ) {
        for at in 0..self.filled.len() {
            self.send(transport, detector, self.filled[at]);
        }
        self.filled.clear();
    }

    fn send(&mut self, transport: &mut dyn Transport, detector: &mut FailureDetector, to: usize) {
        self.sent += 1;
        detector.said(to);
        if let Err(error) = transport.send(to, std::mem::take(&mut self.buffers[to])) {
            detector.failed(&error);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::environment::Shape;
    use crate::hosts::Hosts;
    use crate::team_state::TeamState;
    use crate::transport::in_memory::{Conditions, Network};
    use syncline_sync::Space;
    use syncline_testkit::property;

    /// Splits a coalesced message into its frames; `None` if not all of it is frames.
    fn frames(mut message: &[u8]) -> Option<Vec<(u32, Vec<u8>)>> {
        let mut all = Vec::new();
        while !message.is_empty() {
            let (service, body, rest) = first(message)?;
            all.push((service, body.to_vec()));
            message = rest;
        }
        Some(all)
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn frames_arrive_whole_and_in_order_and_leave_in_time(
            steps in prop::collection::vec((1_usize..3, 0_usize..3000, any::<bool>()), 1..60),
        ) {
            let network = Network::new(3, Conditions::default());
            let control = TeamState::within(&mut Space::heap(), 3, 3).unwrap();
            let shape = Shape { processes: 3, threads: 1, cores: 1 };
            let timeout = std::time::Duration::from_secs(9);
            let mut detector = FailureDetector::new(0, Hosts::new(&[0, 1, 2]), control, shape, timeout);
            let (mut transport, mut coalescer) = (network.transport(0), Coalescer::new(3));
            let mut expected = [Vec::new(), Vec::new(), Vec::new()];
            for (number, (to, len, leaves)) in steps.into_iter().enumerate() {
                let body = vec![number as u8; if len % 7 == 0 { 4 * len } else { len }];
                let mut frame = begin(&mut transport, number as u32);
                frame.extend_from_slice(&body);
                coalescer.add(&mut transport, &mut detector, to, frame);
                expected[to].push((number as u32, body));
                prop_assert!(coalescer.buffers.iter().all(|message| message.len() <= MOST));
                if leaves {
                    coalescer.send_all(&mut transport, &mut detector);
                }
                let filled = (0..3).filter(|&to| !coalescer.buffers[to].is_empty()).collect::<Vec<_>>();
                let mut known = coalescer.filled.clone();
                known.sort_unstable();
                prop_assert_eq!(known, filled);
            }
            coalescer.send_all(&mut transport, &mut detector);
            let mut came = 0;
            for (to, expected) in expected.into_iter().enumerate().skip(1) {
                let (mut other, mut found) = (network.transport(to), Vec::new());
                while let Some((from, message)) = other.receive().unwrap() {
                    prop_assert_eq!(from, 0);
                    came += 1;
                    found.extend(frames(&message).expect("frames only"));
                }
                prop_assert_eq!(found, expected);
            }
            prop_assert_eq!(coalescer.sent(), came);
        }

        #[test]
        fn what_is_no_parcel_is_known(mut bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(all) = frames(&bytes) {
                let len: usize = all.iter().map(|(_, body)| HEADER + body.len().next_multiple_of(8)).sum();
                prop_assert_eq!(len, bytes.len());
            }
            // A frame that is cut short.
            bytes.splice(0..0, [1, 0, 0, 0, 200, 0, 0, 0]);
            prop_assert!(frames(&bytes).is_none());
        }
    }
}
