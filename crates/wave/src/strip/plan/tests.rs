//! Checks the chosen depth in cases where the best is known, and the bounds of the plan.

use super::*;

fn question(rows: usize, cols: usize, iterations: u64) -> Question {
    Question {
        shape: Shape::new(rows, cols),
        value: 8,
        arrays: 6,
        on_file: 6,
        result_on_file: true,
        lanes: Lanes::Scalar,
        stencil: Stencil::FIVE_POINT,
        iterations,
        converges: false,
        depth: None,
        threads: 2,
        memory: 8 << 30,
        cache: 1 << 20,
        disk: Some(1.5e9),
    }
}

#[test]
fn twenty_iterations_of_the_papers_case_are_one_pass() {
    let plan = question(16384, 16384, 20).answer().unwrap();
    assert_eq!((plan.passes, plan.depth), (1, 20));
}

#[test]
fn a_slow_disk_is_read_as_seldom_as_the_memory_allows() {
    let slow = Question { disk: Some(64e6), memory: 400 << 20, ..question(16384, 16384, 10_000) };
    let plan = slow.answer().unwrap();
    let deepest = slow.deepest(plan.band, plan.panels, 10_000);
    assert!(
        plan.passes <= 10_000_u64.div_ceil(deepest) && plan.memory <= slow.memory,
        "{plan:?}, {deepest}"
    );
}

#[test]
fn passes_are_short_if_each_may_be_the_last() {
    for iterations in [1000, 1 << 32, u64::MAX] {
        for (rows, cols) in [(20, 30), (1500, 600), (3, 100_000), (100_000, 3)] {
            let question = Question { converges: true, ..question(rows, cols, iterations) };
            let plan = question.answer().unwrap();
            assert!(plan.depth < 3000 && plan.memory < 1 << 30, "{rows} x {cols}: {plan:?}");
        }
    }
}

#[test]
fn more_iterations_never_need_more_than_twice_the_time_of_the_best_passes() {
    for iterations in [1, 7, 40, 200, 3000, 100_000, 1 << 40] {
        for (rows, cols) in [(3, 3), (20, 30), (1500, 600), (8192, 8192)] {
            let question = question(rows, cols, iterations);
            let plan = question.answer().unwrap();
            assert!(
                plan.passes * plan.depth >= iterations
                    && (plan.passes - 1) * plan.depth < iterations
            );
            let time = |passes: u64| {
                question.pass_ns(iterations.div_ceil(passes), plan.band) * passes as f64
            };
            let best = (0..41).map(|n| time(1_u64 << n)).fold(f64::INFINITY, f64::min);
            assert!(time(plan.passes) <= 2.0 * best, "{rows} x {cols}, {iterations}: {plan:?}");
        }
    }
}

#[test]
fn without_memory_for_one_iteration_it_is_an_error_that_tells_how_much_is_needed() {
    let of = |memory| Question { memory, ..question(1000, 1000, 5) }.answer();
    let Err(Error::StreamMemory { needed, .. }) = of(1000) else {
        panic!("1000 bytes are enough?");
    };
    assert!(of(needed).is_ok() && of(needed - 1).is_err());
}

#[test]
fn what_has_nothing_to_update_has_a_plan() {
    for (rows, cols) in [(1, 1), (1, 9), (9, 1), (2, 2), (3, 3)] {
        let plan = question(rows, cols, 0).answer().unwrap();
        assert_eq!((plan.passes, plan.depth), (1, 1), "{rows} x {cols}");
    }
}

#[test]
fn any_depth_can_be_asked_for() {
    for depth in [1 << 24, 20_000_000, u64::MAX] {
        for converges in [false, true] {
            let deep = Question { depth: Some(depth), converges, ..question(40, 40, u64::MAX) };
            let plan = deep.answer().unwrap();
            assert!(plan.depth <= depth && plan.passes >= u64::MAX / plan.depth, "{plan:?}");
            let small = Question { memory: 8 << 20, ..deep }.answer();
            assert!(small.is_err() == converges, "{small:?}");
        }
    }
}

#[test]
fn the_estimate_knows_how_far_deep_chains_walk() {
    for lanes in Lanes::available() {
        let stencils = [Stencil::FIVE_POINT, Stencil::NINE_POINT];
        for (value, stencil) in [4, 8].into_iter().flat_map(|value| stencils.map(|s| (value, s))) {
            let wide = Question { lanes, value, stencil, ..question(300, 300, 10_000) };
            let plan = wide.answer().unwrap();
            let geometry = wide.geometry(plan.depth as usize, plan.band, 2);
            let walk =
                Chain { geometry, levels: plan.depth as usize, band: plan.band }.walk().len();
            // A tile without work must cost less than one with work.
            let tiles =
                walk / plan.tile * ((300 / geometry.width + plan.depth as usize) / plan.band);
            let work = 300.0 * 300.0 * plan.depth as f64 * UPDATE_NS;
            assert!((tiles as f64) * TILE_NS < 2.0 * work, "{plan:?}");
        }
    }
}

#[test]
fn few_long_rows_have_vectors_that_they_fill() {
    let widest = Lanes::available().max_by_key(|lanes| lanes.width(8)).unwrap();
    let of = |rows, cols| {
        let wide = Question { arrays: 1, on_file: 1, lanes: widest, ..question(rows, cols, 20) };
        (wide.clone().answer().unwrap(), wide.narrowed().answer().unwrap())
    };
    let (wide, narrow) = of(1, 4_000_000);
    assert_eq!(narrow.lanes, Lanes::Scalar);
    assert!(2 * narrow.memory < wide.memory || widest == Lanes::Scalar, "{narrow:?}");
    assert!(narrow.memory < 8 * 32_000_000, "{narrow:?}");
    for (rows, cols) in [(1, 1000), (64, 4_000_000)] {
        assert_eq!(of(rows, cols).1.lanes, widest, "{rows} x {cols}");
    }
}
