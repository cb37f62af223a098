//! Messages that go to the same process, put together.
//!
//! # Contract
//! A service's message is a *frame*; what the wire carries is a *parcel* of frames, which arrive in the order in which they were
//! added. What is added stays in a box for its receiver until [`send_all`](Parcels::send_all), or until there is enough of it:
//! a parcel of more than [`MOST`] bytes leaves at once. A frame that is alone in its parcel is not copied.
//!
//! ```text
//!  parcel   | frame | frame | ...             frame    | service (4) | bytes (4) | body ... | to the next multiple of 8
//! ```
//!
//! # Costs
//! Eight bytes a frame, and a copy of every frame but the first. A message costs a processor some microseconds at either end,
//! which is what a copy of ten thousand bytes costs.

use crate::heart::Heart;
use crate::wire::Wire;

/// Bytes before the body of a frame.
pub(crate) const HEADER: usize = 8;
/// Parcels of more bytes leave at once.
pub(crate) const MOST: usize = 8 << 10;

/// What is to be sent: see the [module](self).
#[derive(Debug)]
pub(crate) struct Parcels {
    /// By receiver.
    boxes: Vec<Vec<u8>>,
    /// Those that are not empty.
    filled: Vec<usize>,
    /// Parcels that have left.
    sent: u64,
}

/// The start of a frame of a service.
pub(crate) fn begin(wire: &mut dyn Wire, service: u32) -> Vec<u8> {
    let mut frame = wire.buffer();
    frame.clear();
    frame.extend_from_slice(&u64::from(service).to_le_bytes());
    frame
}

/// The end of it.
pub(crate) fn seal(frame: &mut Vec<u8>) {
    let len = u32::try_from(frame.len() - HEADER).expect("messages have less than 4 GiB");
    frame[4..HEADER].copy_from_slice(&len.to_le_bytes());
    frame.resize(frame.len().next_multiple_of(8), 0);
}

/// The frame at the beginning of a parcel: its service, its body, and what is behind it. `None` if it is none.
pub(crate) fn first(parcel: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let (service, rest) = parcel.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let len = u32::from_le_bytes(*len) as usize;
    let body = rest.get(..len)?;
    Some((u32::from_le_bytes(*service), body, rest.get(len.next_multiple_of(8)..)?))
}

impl Parcels {
    pub(crate) fn new(processes: usize) -> Parcels {
        Parcels { boxes: vec![Vec::new(); processes], filled: Vec::new(), sent: 0 }
    }

    /// How many parcels have left.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// A frame for a process.
    pub(crate) fn add(&mut self, wire: &mut dyn Wire, heart: &mut Heart, to: usize, mut frame: Vec<u8>) {
        seal(&mut frame);
        let full = self.boxes[to].len() + frame.len() > MOST;
        if full && !self.boxes[to].is_empty() {
            self.filled.retain(|&other| other != to);
            self.send(wire, heart, to);
        }
        let parcel = &mut self.boxes[to];
        if parcel.is_empty() {
            *parcel = frame;
            self.filled.push(to);
        } else {
            parcel.extend_from_slice(&frame);
            wire.recycle(frame);
        }
        if self.boxes[to].len() > MOST {
            self.filled.pop();
            self.send(wire, heart, to);
        }
    }

    /// Everything leaves.
    pub(crate) fn send_all(&mut self, wire: &mut dyn Wire, heart: &mut Heart) {
        for at in 0..self.filled.len() {
            self.send(wire, heart, self.filled[at]);
        }
        self.filled.clear();
    }

    fn send(&mut self, wire: &mut dyn Wire, heart: &mut Heart, to: usize) {
        self.sent += 1;
        heart.said(to);
        if let Err(error) = wire.send(to, std::mem::take(&mut self.boxes[to])) {
            heart.failed(&error);
        }
    }
}
