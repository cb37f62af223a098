//! Long messages between hosts that are groups of threads: order, content, early and late
//! services, deaths.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use syncline_fabric::endpoint::{Endpoint, Landing, Out, Place, Service, Way};
use syncline_fabric::transport::in_memory::{Conditions, Network};
use syncline_fabric::{Member, Team};
use syncline_testkit::Random;

/// A service that checks every message, and counts.
#[derive(Debug, Default)]
struct Post {
    /// The headers and the short messages of each sender, in the order in which they came.
    came: Mutex<Vec<(usize, u64)>>,
    landed: AtomicUsize,
    sent: AtomicUsize,
    given_up: Mutex<Vec<(usize, u64, Way)>>,
}

/// Memory that is written while other threads may read it.
type Bytes = Arc<Vec<AtomicU8>>;

fn memory(len: usize) -> Bytes {
    Arc::new((0..len).map(|_| AtomicU8::new(0)).collect())
}

fn place(bytes: &Bytes, len: usize) -> Place {
    assert!(len <= bytes.len());
    // SAFETY: the bytes are atomics, which any thread may access at any time; the owner keeps them.
    unsafe { Place::new(bytes.as_ptr().cast_mut().cast(), len, bytes.clone()) }
}

fn pattern(from: usize, number: u64, at: usize) -> u8 {
    (from * 7 + number as usize * 13 + at * 31 + (at >> 8)) as u8
}

/// The length of a message, which follows from its number: some are empty, some have pieces.
fn length(number: u64) -> usize {
    match Random::new(number).below(40_u32) {
        0 => 0,
        1 => (4 << 20) + 1,
        2 => 9 << 20,
        n => 1 + (number as usize * 7919) % (1000 * n as usize),
    }
}

fn check(from: usize, number: u64, bytes: impl Iterator<Item = u8>) {
    let mut len = 0;
    for (at, byte) in bytes.enumerate() {
        assert_eq!(byte, pattern(from, number, at), "byte {at} of {number} from {from}");
        len += 1;
    }
    assert_eq!(len, length(number));
}

impl Service for Post {
    fn receive(&self, from: usize, body: &[u8], _: &mut Out<'_>) {
        let number = u64::from_le_bytes(body.try_into().unwrap());
        self.came.lock().unwrap().push((from, number));
    }

    fn receive_long(&self, from: usize, header: &[u8], len: usize, out: &mut Out<'_>) -> Landing {
        self.receive(from, header, out);
        let token = u64::from_le_bytes(header.try_into().unwrap());
        assert_eq!(len, length(token));
        Landing { token, place: Place::owned(vec![0; len]) }
    }

    fn landed(&self, from: usize, token: u64, place: Place, _: &mut Out<'_>) {
        check(from, token, place.into_bytes().expect("a buffer").into_iter());
        self.landed.fetch_add(1, Ordering::Relaxed);
    }

    fn sent(&self, _to: usize, _token: u64, place: Place, _: &mut Out<'_>) {
        // From here on the sender may change the bytes.
        if let Some(mut bytes) = place.into_bytes() {
            bytes.fill(0xEE);
        }
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    fn given_up(&self, process: usize, token: u64, way: Way, _: &mut Out<'_>) {
        self.given_up.lock().unwrap().push((process, token, way));
    }
}

fn send(out: &mut Out<'_>, from: usize, to: usize, number: u64, long: bool) {
    let mut message = out.message();
    message.extend_from_slice(&number.to_le_bytes());
    if !long {
        return out.send(to, message);
    }
    let len = length(number);
    let place = if number.is_multiple_of(2) {
        Place::owned((0..len).map(|at| pattern(from, number, at)).collect())
    } else {
        let bytes = memory(len);
        for (at, byte) in bytes.iter().enumerate() {
            byte.store(pattern(from, number, at), Ordering::Relaxed);
        }
        place(&bytes, len)
    };
    out.send_long(to, message, number, place);
}

const MESSAGES: u64 = 60;

/// Whether a message is long, by its number.
fn is_long(number: u64) -> bool {
    !number.is_multiple_of(3)
}

/// Every process sends to every other one, and waits until all of it is there.
fn exchange(me: &mut Member, late: bool) {
    let processes = me.processes();
    if late && me.process() == 1 {
        // The barrier's message comes behind the messages for a service that is not attached.
        me.wait().unwrap();
    }
    let (service, post) = me.attach(Post::default).unwrap();
    let (endpoint, own) = (me.endpoint().unwrap().clone(), me.process());
    for number in 0..MESSAGES {
        for to in (0..processes).filter(|&to| to != own) {
            endpoint.enter(service, |out| send(out, own, to, number, is_long(number)));
        }
    }
    if late && own != 1 {
        me.wait().unwrap();
    }
    let others = processes - 1;
    let long = others * (0..MESSAGES).filter(|&number| is_long(number)).count();
    let all = others * MESSAGES as usize;
    let done = || {
        let counts = [&post.landed, &post.sent].map(|count| count.load(Ordering::Relaxed));
        counts == [long; 2] && post.came.lock().unwrap().len() == all
    };
    endpoint.wait(None, done).unwrap();
    for from in (0..processes).filter(|&from| from != own) {
        let came = post.came.lock().unwrap();
        let numbers = came.iter().filter(|came| came.0 == from).map(|came| came.1);
        assert_eq!(numbers.collect::<Vec<_>>(), (0..MESSAGES).collect::<Vec<_>>());
    }
    assert!(post.given_up.lock().unwrap().is_empty());
}

#[test]
fn long_messages_arrive_whole_and_their_headers_in_order() {
    for (seed, hosts) in [(1, 2), (2, 3)] {
        let latency = Duration::from_micros(20);
        let jitter = Duration::from_micros(200);
        let conditions = Conditions { latency, jitter, seed };
        let ran = Team::hosts(hosts).quiet().conditions(conditions).run(|me| exchange(me, false));
        assert_eq!(ran.unwrap().len(), hosts);
    }
}

#[test]
fn a_service_that_is_attached_late_gets_them_all() {
    let conditions = Conditions { jitter: Duration::from_micros(300), ..Conditions::default() };
    let ran = Team::hosts(2).quiet().conditions(conditions).run(|me| exchange(me, true));
    assert_eq!(ran.unwrap().len(), 2);
}

#[test]
fn short_messages_do_not_wait_for_a_long_one() {
    // The long message is not taken out of its place before its receiver drives, and its receiver
    // gets the short one first.
    let conditions = Conditions { latency: Duration::from_millis(1), ..Conditions::default() };
    Team::hosts(2)
        .quiet()
        .conditions(conditions)
        .run(|me| {
            let (service, post) = me.attach(Post::default).unwrap();
            let (endpoint, own) = (me.endpoint().unwrap().clone(), me.process());
            let number = (0..).find(|&number| length(number) > 1 << 20).unwrap();
            if own == 0 {
                endpoint.enter(service, |out| {
                    send(out, 0, 1, number, true);
                    send(out, 0, 1, 7, false);
                });
                endpoint.wait(None, || post.sent.load(Ordering::Relaxed) == 1).unwrap();
            } else {
                endpoint.wait(None, || post.came.lock().unwrap().len() == 2).unwrap();
                assert_eq!(*post.came.lock().unwrap(), [(0, number), (0, 7)]);
                endpoint.wait(None, || post.landed.load(Ordering::Relaxed) == 1).unwrap();
            }
        })
        .unwrap();
}

/// Waits for the condition although a member is dead.
fn wait_past_the_dead(endpoint: &Endpoint, mut until: impl FnMut() -> bool) {
    let since = Instant::now();
    // The wait ends with the fault of the dead member.
    while endpoint.wait(None, &mut until).is_err() {
        assert!(since.elapsed() < Duration::from_secs(300), "the condition does not hold");
    }
}

/// A token that no number has.
const OTHER: u64 = u64::MAX;

#[test]
fn transfers_with_a_dead_process_are_given_up_and_their_memory_is_released() {
    let network: Mutex<Option<Network>> = Mutex::new(None);
    let sent = memory(1 << 20);
    let passed = AtomicUsize::new(0);
    let conditions = Conditions { latency: Duration::from_micros(50), ..Conditions::default() };
    let team = Team::hosts(3).quiet().conditions(conditions);
    let keep = |links: &Network| *network.lock().unwrap() = Some(links.clone());
    let ran = team.run_on(keep, |me| {
        let (service, post) = me.attach(Post::default).unwrap();
        let (endpoint, own) = (me.endpoint().unwrap().clone(), me.process());
        me.wait().unwrap();
        passed.fetch_add(1, Ordering::Relaxed);
        if own == 2 {
            // A member that is still in the barrier would be told of the death there.
            endpoint.wait(None, || passed.load(Ordering::Relaxed) == 3).unwrap();
            // The endpoint of a process that is gone neither sends nor receives.
            network.lock().unwrap().as_ref().unwrap().report(2);
            return;
        }
        let number = (0..).find(|&number| length(number) > 1 << 20).unwrap();
        endpoint.enter(service, |out| {
            send(out, own, 2, number, true);
            send(out, own, 1 - own, number, true);
            let mut message = out.message();
            message.extend_from_slice(&number.to_le_bytes());
            out.send_long(2, message, OTHER, place(&sent, 1 << 20));
        });
        wait_past_the_dead(&endpoint, || post.given_up.lock().unwrap().len() == 2);
        let mut given = post.given_up.lock().unwrap().clone();
        given.sort_unstable_by_key(|given| given.1);
        assert_eq!(given, [(2, number, Way::Out), (2, OTHER, Way::Out)]);
        // The transfer between the living takes place.
        let all = [&post.landed, &post.sent];
        wait_past_the_dead(&endpoint, || all.iter().all(|n| n.load(Ordering::Relaxed) == 1));
    });
    assert_eq!(ran.unwrap().len(), 3);
    // No part of the team or of the network holds the memory when the team has ended.
    drop(network);
    assert_eq!(Arc::strong_count(&sent), 1);
}
