//! Values and numbers sent between processes.

use std::time::{Duration, Instant};

use syncline_farm::{
    Farm, FarmError, Program, Vpid, bounds::Bounds, message::MessageKind, wire::Numbers,
};

use crate::worker::Role;
use crate::{late, worker};

#[test]
fn values_of_every_size_come_back() {
    for depth in [1, 3] {
        let mut farm = Farm::with(Bounds::default().depth(depth)).unwrap();
        let echo = worker(&mut farm, Role::Echo);
        for len in [1, 2, 10, 100, 1000, 3, 100_000, 5, 100_001] {
            let value: Vec<u64> =
                (0..len).map(|n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
            farm.send(echo, &value).unwrap();
            assert_eq!(farm.recv_deadline::<Vec<u64>>(echo, late()).unwrap(), value);
        }
        farm.send(echo, &Vec::<u64>::new()).unwrap();
        assert!(farm.recv_deadline::<Vec<u64>>(echo, late()).unwrap().is_empty());
        assert_eq!(farm.wait(echo, late()).unwrap().to_string(), "exited with 0");
    }
}

#[test]
fn numbers_are_read_in_place() {
    let mut farm = Farm::new().unwrap();
    let lens = [0, 1, 14, 15, 1000, 1_000_000, 10];
    let mirror = worker(&mut farm, Role::Reflect { times: lens.len() });
    for len in lens {
        let numbers: Vec<f64> = (0..len).map(f64::from).collect();
        farm.send(mirror, &Numbers::from(&numbers[..])).unwrap();
        let back: Numbers<'_, f64> = farm.recv_deadline(mirror, late()).unwrap();
        assert_eq!(*back, numbers);
    }
}

#[test]
fn bytes_of_a_kind_are_what_numbers_are() {
    let (mut farm, me) = (Farm::new().unwrap(), Vpid::MANAGER);
    let numbers = [1.5_f32, -2.0];
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    farm.send_bytes(me, MessageKind::numbers::<f32>(), &bytes, late()).unwrap();
    assert_eq!(*farm.recv::<Numbers<'_, f32>>(me).unwrap(), numbers);
    // A value is forwarded as it came.
    farm.send(me, &(7_u64, "seven".to_owned())).unwrap();
    let message = farm.recv_message(me).unwrap();
    assert_eq!((message.kind(), message.kind().size()), (MessageKind::VALUE, Some(1)));
    farm.send_bytes(me, message.kind(), &message, late()).unwrap();
    assert_eq!(farm.recv::<(u64, String)>(me).unwrap(), (7, "seven".to_owned()));
    // Seven bytes are not a whole number of `u32`, so nothing is sent.
    let error =
        farm.send_bytes(me, MessageKind::numbers::<u32>(), &bytes[..7], late()).unwrap_err();
    assert!(matches!(error, FarmError::Unsendable { .. }), "{error}");
    assert!(matches!(
        farm.recv_message_deadline(me, Some(Instant::now())),
        Err(FarmError::TimedOut { .. })
    ));
}

#[test]
fn messages_are_received_after_their_sender_has_ended() {
    let mut farm = Farm::new().unwrap();
    let gone = worker(&mut farm, Role::Exit(0));
    assert_eq!(farm.wait(gone, late()).unwrap().to_string(), "exited with 0");
    assert_eq!(farm.recv_deadline::<u64>(gone, late()).unwrap(), 7);
    let error = farm.recv_deadline::<u64>(gone, late()).unwrap_err();
    assert_eq!(error.to_string(), "process 1 exited with 0");
    assert!(matches!(farm.send(gone, &1_u64), Err(FarmError::Gone { .. })));
}

#[test]
fn workers_spawn_workers() {
    let mut farm = Farm::new().unwrap();
    let root = worker(&mut farm, Role::Tree { width: 3, depth: 2 });
    assert_eq!(farm.recv_deadline::<u64>(root, late()).unwrap(), 1 + 3 + 9);
}

#[test]
fn whoever_has_sent_is_received_from() {
    let mut farm = Farm::new().unwrap();
    let mut workers: Vec<Vpid> = (0..5).map(|_| worker(&mut farm, Role::Exit(0))).collect();
    while !workers.is_empty() {
        let (from, seven) = farm.recv_any_deadline::<u64>(late()).unwrap();
        assert_eq!(seven, 7);
        workers.retain(|&worker| worker != from);
    }
    assert!(matches!(farm.recv_any_deadline::<u64>(late()), Err(FarmError::Alone)));
}

/// A sender with many messages keeps no other waiting: of two that have ended, with two messages
/// each in their channels, both are received from before either is again.
#[test]
fn senders_take_turns() {
    let mut farm = Farm::with(Bounds::default().depth(3)).unwrap();
    let workers = [(); 2].map(|()| worker(&mut farm, Role::Reflect { times: 2 }));
    for _ in 0..2 {
        for worker in workers {
            farm.send(worker, &Numbers::from(&[1.0_f64][..])).unwrap();
        }
    }
    for worker in workers {
        assert_eq!(farm.wait(worker, late()).unwrap().to_string(), "exited with 0");
    }
    let turns = [(); 4].map(|()| farm.recv_any_message_deadline(late()).unwrap().0);
    assert!(turns[0] != turns[1] && turns[..2] == turns[2..], "{turns:?} of {workers:?}");
}

#[test]
fn a_deadline_ends_a_wait() {
    let mut farm = Farm::new().unwrap();
    let soon = || Some(Instant::now() + Duration::from_millis(10));
    let echo = worker(&mut farm, Role::Hang);
    assert_eq!(farm.recv_deadline::<u64>(echo, late()).unwrap(), 7);
    let error = farm.recv_deadline::<u64>(echo, soon()).unwrap_err().to_string();
    assert_eq!(error, "the deadline passed while waiting for a message from process 1");
    assert!(matches!(farm.recv_any_deadline::<u64>(soon()), Err(FarmError::TimedOut { .. })));
    // The channel has room for one message only.
    farm.send(echo, &1_u64).unwrap();
    let error = farm.send_deadline(echo, &2_u64, soon()).unwrap_err().to_string();
    assert_eq!(
        error,
        "the deadline passed while waiting for process 1 to receive what it was sent before"
    );
}

#[test]
fn what_is_not_what_was_asked_for_is_told() {
    let mut farm = Farm::new().unwrap();
    let me = Vpid::MANAGER;
    farm.send(me, &Numbers::from(&[1.0, 2.0][..])).unwrap();
    let error = farm.recv::<Numbers<'_, u32>>(me).unwrap_err().to_string();
    assert_eq!(error, "a message from process 0 is numbers f64, not numbers u32");
    farm.send(me, &300_u64).unwrap();
    let error = farm.recv::<bool>(me).unwrap_err().to_string();
    assert!(
        error.starts_with("a message from process 0 is not of the type that was asked for"),
        "{error}"
    );
    farm.send(me, &(1_u8, 2_u8)).unwrap();
    let error = farm.recv::<u8>(me).unwrap_err().to_string();
    assert_eq!(
        error,
        "a message from process 0 has 1 bytes too many for the type that was asked for"
    );
}

#[test]
fn a_farm_has_bounds() {
    let wrong = |bounds: Bounds| Farm::with(bounds).unwrap_err().to_string();
    assert_eq!(
        wrong(Bounds::default().processes(1)),
        "the number of processes of a farm must be from 2 to 16384, not 1"
    );
    assert!(wrong(Bounds::default().depth(0)).starts_with("the depth of channels must be from 1"));
    assert!(
        wrong(Bounds::default().memory(1)).starts_with("the memory of a farm must be from 65536")
    );
    let mut farm = Farm::with(Bounds::default().processes(3).memory(1 << 20)).unwrap();
    let (one, two) = (farm.reserve().unwrap(), farm.reserve().unwrap());
    assert!(matches!(farm.reserve(), Err(FarmError::Full { processes: 3 })));
    let error = farm.send(one, &vec![1_u8; 2 << 20]).unwrap_err().to_string();
    assert!(error.contains("are free for a message in the farm's memory of 1 MiB: "), "{error}");
    farm.send(two, &vec![1_u8; 100_000]).unwrap();
}

#[test]
fn numbers_of_processes_are_looked_at() {
    let mut farm = Farm::new().unwrap();
    let unknown = Vpid::from_raw(17);
    assert!(matches!(farm.send(unknown, &1_u8), Err(FarmError::Unknown { .. })));
    assert!(matches!(farm.recv::<u8>(unknown), Err(FarmError::Unknown { .. })));
    assert!(matches!(farm.recv::<u8>(Vpid::from_raw(u64::MAX)), Err(FarmError::Unknown { .. })));
    assert!(matches!(farm.start(unknown, &Program::new("true")), Err(FarmError::Unknown { .. })));
    let error = farm.start(Vpid::MANAGER, &Program::new("true")).unwrap_err();
    assert!(matches!(error, FarmError::NotReserved { .. }), "{error}");
}
