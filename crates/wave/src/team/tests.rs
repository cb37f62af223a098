//! Sweeps on teams against the plain loop, for random descriptions.

use std::path::PathBuf;
use std::sync::Arc;

use syncline_fabric::{Member, Team};
use syncline_kernel::rule::plain::plain;
use syncline_kernel::rule::three;
use syncline_kernel::rule::{self, Rule};
use syncline_store::array::{Array, ArraySource};
use syncline_store::generation::Identity;
use syncline_testkit::{cases, seed};

use super::files::sums;
use super::kernel::Computes;
use super::{Agreed, Division, OnTeam};
use crate::engines::ordered;
use crate::engines::tests::{Case, case, change, difference, every_lanes, solid_case, wider_case};
use crate::monitor::Monitor;
use crate::pass::buffers::Buffers;
use crate::pass::spent::Spent;
use crate::pass::sums::SlabSums;
use crate::plan::SweepPlan;
use crate::run::fields::{Input, Output, failed};
use crate::run::plan::{ArrayPlan, Question};
use crate::run::scheme::BySlabs;
use crate::run::{Done, Run};
use crate::target::Target;
use crate::team::groups::Groups;
use crate::team::share::Share;
use crate::{Described, Error, Result, Runner, Sweep, SweepReport};

/// Returns the fields after these iterations, and the greatest change in each.
fn expected(rule: &Rule, arrays: &[Array], iterations: u64) -> (Vec<Array>, Vec<f64>) {
    let coefficients: Vec<&Array> = arrays[rule.fields..].iter().collect();
    let mut fields = arrays[..rule.fields].to_vec();
    let mut changes = Vec::new();
    for iteration in 0..iterations {
        let before = fields.clone();
        plain(rule, &mut fields, &coefficients, iteration..iteration + 1);
        let all = before.iter().zip(&fields).map(|(old, new)| change(old, new));
        changes.push(all.fold(0.0, rule::greater));
    }
    (fields, changes)
}

/// Returns some slabs of an array.
fn slabs(array: &Array, slabs: &std::ops::Range<usize>) -> Array {
    let size = array.bytes().len() / array.dims()[0];
    let dims = [&[slabs.len()], &array.dims()[1..]].concat();
    let mut part = Array::zeros(array.element(), &dims).unwrap();
    let bytes = &array.bytes()[slabs.start * size..slabs.end * size];
    part.bytes_mut().copy_from_slice(bytes);
    part
}

#[test]
fn each_share_of_a_pass_has_the_bits_of_the_plain_loop() {
    let first = seed(0);
    for number in first..first + u64::from(cases(400)) {
        let Some(Case { text, described, dims, arrays, mut random }) = case(number) else {
            continue;
        };
        let rule = described.rule();
        if !rule.explicit {
            continue;
        }
        let iterations = random.within(1..=8) as u64;
        let (expected, _) = expected(rule, &arrays, iterations);
        let members = random.within(1..=5).min(dims[0]);
        let unit = random.within(1..=3).min(dims[0] / members);
        let threads = random.within(1..=2);
        let sweep = Sweep::new(described.clone())
            .iterations(iterations)
            .lanes(random.one_of(&every_lanes()))
            .runner(Runner::pool(threads));
        let plan = ArrayPlan {
            depth: iterations,
            passes: 1,
            band: random.within(1..=20),
            piece: random.within(1..=60),
            flight: threads + 1,
            twice: 0,
            memory: 0,
        };
        let inputs: Vec<_> = arrays.iter().map(Input::Memory).collect();
        for member in 0..members {
            let share = Share::of(dims[0], (member, members), unit);
            let own = share.own.clone();
            let settings = &sweep.settings;
            let scheme = Box::new(BySlabs { rule, plan, lanes: settings.lanes, team: None });
            let run = Run {
                scheme,
                inputs: &inputs,
                settings,
                npy: true,
                share,
                team: None,
                buffers: Buffers::default(),
            };
            let mut output = Output::Memory(Vec::new());
            run.run(&mut output, Done::default(), &[], &mut |_, _, _| Ok(())).unwrap();
            let Output::Memory(fields) = output else { unreachable!("the run is in memory") };
            for (field, expected) in fields.iter().zip(&expected) {
                if let Some(difference) = difference(&slabs(field, &own), &slabs(expected, &own)) {
                    panic!("case {number}, {dims:?}, {plan:?}, {own:?}: {difference}\n{text}");
                }
            }
        }
    }
}

/// Runs `f` in the members of a team on that many hosts, with as many members on each.
fn team<R: Send>((hosts, each): (usize, usize), f: impl Fn(&mut Member) -> R + Sync) -> Vec<R> {
    match hosts {
        1 => Team::threads(each).quiet().run(f).unwrap(),
        _ => Team::hosts(hosts).threads(each).quiet().run(f).unwrap(),
    }
}

/// Returns a case whose arrays have some columns more.
type Cases = dyn Fn(u64, usize) -> Option<Case>;

/// Runs random descriptions on teams, over arrays that have some columns more. Returns the numbers
/// of runs by several members, of ordered rules and of explicit ones.
fn random_teams(cases: std::ops::Range<u64>, more: usize, case: &Cases) -> [usize; 2] {
    let mut runs = [0, 0];
    for number in cases {
        let Some(case) = case(number, more) else { continue };
        let Case { text, described, dims, arrays, mut random } = case;
        let rule = described.rule();
        let hosts = random.one_of(&[(1, 1), (1, 2), (1, 3), (1, 5), (2, 1), (2, 2), (3, 1)]);
        if rule.explicit && hosts.0 * hosts.1 > dims[0] {
            continue;
        }
        let iterations = random.within(1..=12) as u64;
        let (tolerance, exact) = (random.one_of(&[-0.0, 100.0, 1e3]), random.one_in(2));
        let (depth, threads) = (random.within(1..=8) as u64, random.within(1..=2));
        let lanes = random.one_of(&every_lanes());
        let sweep = |described: &Described| {
            let sweep = Sweep::new(described.clone())
                .iterations(iterations)
                .until(tolerance)
                .exact_stop(exact)
                .lanes(lanes)
                .runner(Runner::pool(threads));
            if depth > 6 { sweep } else { sweep.depth(depth) }
        };
        let folder = tempfile::tempdir().unwrap();
        let on_file: Vec<bool> = arrays.iter().map(|_| random.one_in(2)).collect();
        let to_files = random.one_in(2);
        let targets: Vec<PathBuf> =
            (0..rule.fields).map(|field| folder.path().join(format!("result-{field}"))).collect();
        let target = targets[1..].iter().fold(Target::npy(&targets[0]), Target::and);
        let target = target.in_memory(random.one_in(3));
        let paths: Vec<PathBuf> =
            (0..arrays.len()).map(|n| folder.path().join(format!("{n}.npy"))).collect();
        for (array, path) in arrays.iter().zip(&paths) {
            array.create(path).unwrap().commit().unwrap();
        }
        let outcomes: Vec<Result<(Vec<Array>, SweepReport)>> = team(hosts, |me| {
            let sweep = sweep(&described).monitor(std::sync::Arc::new(Monitor::new()));
            let sweep = sweep.runner(Runner::pool(threads + me.rank() % 2));
            if to_files {
                let sources: Vec<ArraySource> = std::iter::zip(&arrays, &paths)
                    .zip(&on_file)
                    .map(|((array, path), on_file)| match on_file {
                        true => ArraySource::open(path).unwrap(),
                        false => ArraySource::Memory(array.clone()),
                    })
                    .collect();
                let (fields, coefficients) = sources.split_at(rule.fields);
                let report = sweep.run_arrays_on(me, fields, coefficients, &target)?;
                let fields = targets.iter().map(|path| Array::open(path).unwrap()).collect();
                return Ok((fields, report));
            }
            let (fields, coefficients) = arrays.split_at(rule.fields);
            sweep.gather_arrays_on(me, fields, coefficients)
        });
        let leans = rule.leans_both_ways() && outcomes.len() > 1;
        let refused = |outcome: &Result<_>| match outcome {
            Err(Error::NotOnTeam { .. }) => leans,
            outcome => matches!(outcome, Err(Error::Members { .. })) && !leans,
        };
        assert!(!leans || outcomes.iter().all(refused), "case {number}");
        if !rule.explicit && refused(&outcomes[0]) {
            assert!(outcomes.iter().all(refused), "case {number}");
            continue;
        }
        runs[usize::from(rule.explicit)] += usize::from(outcomes.len() > 1);
        for outcome in outcomes {
            let (fields, report) = outcome.unwrap();
            let done = report.iterations;
            let (expected, changes) = expected(rule, &arrays, done);
            let window = rule.directions.len();
            let enough = |changes: &[f64]| changes.iter().all(|change| *change <= tolerance);
            let reached = changes.windows(window).position(enough).map(|at| at + window - 1);
            assert_eq!(report.converged, reached.map(|at| at as u64), "case {number}");
            match reached {
                Some(at) if exact => assert_eq!(done, at as u64 + 1),
                Some(_) => assert!(done <= iterations),
                None => assert_eq!(done, iterations),
            }
            for (n, (field, expected)) in fields.iter().zip(&expected).enumerate() {
                if let Some(difference) = difference(field, expected) {
                    panic!(
                        "case {number}, {dims:?}, {hosts:?}, {iterations} iterations, depth \
                         {depth}, files {to_files}: field {n}, {difference}\n{text}"
                    );
                }
            }
        }
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, arrays.len() + if to_files { rule.fields } else { 0 });
    }
    runs
}

#[test]
fn teams_have_the_bits_of_the_plain_loop() {
    let (first, each) = (seed(0), u64::from(cases(60)));
    let middle = first + each;
    let [narrow, wide] = [(first..middle, 0), (middle..middle + each, 150)]
        .map(|(cases, more)| random_teams(cases, more, &wider_case));
    // At least an eighth of the cases run on several members.
    let enough = |runs: usize| runs as u64 >= each / 8;
    assert!(enough(narrow[1]) && enough(wide[0]) && enough(wide[1]), "{narrow:?} {wide:?}");
}

#[test]
fn teams_in_three_dimensions_have_the_bits_of_the_plain_loop() {
    let (first, all) = (seed(0), u64::from(cases(80)));
    let [runs, _] = random_teams(first..first + all, 80, &solid_case);
    assert!(runs as u64 >= all / 8, "{runs} of {all}");
}

/// Returns a kernel of 27 points in these directions.
fn smoother(directions: &str) -> Described {
    let sides = [-1, 0, 1];
    let points = sides.iter().flat_map(|k| sides.iter().map(move |j| (k, j)));
    let points = points.flat_map(|(k, j)| sides.iter().map(move |i| format!("u[{k}, {j}, {i}]")));
    let sum = points.collect::<Vec<_>>().join(" + ");
    let text = format!(
        "name = 'smoother'\nfield = 'u'\ndimensions = 3\ndirections = [{directions}]\n\
         edges = 0.5\nupdate = 'u = ({sum}) / 27'"
    );
    Described::parse(&text).unwrap()
}

/// Engines of a pass pass on the columns around the cuts of each row.
#[test]
fn directions_of_one_pass_have_the_bits_of_the_plain_loop_on_a_team() {
    let values = (0..7 * 6 * 150).map(|i| f64::from(i * 7919 % 1009) / 8.0).collect();
    let arrays = [Array::from_vec(&[7, 6, 150], values).unwrap()];
    for directions in [
        "'down-south-east', 'down-north-west'",
        "'up-north-west', 'up-north-west', 'up-south-east'",
        "'down-south-west', 'down-north-east', 'up-north-east', 'up-south-west'",
    ] {
        let described = smoother(directions);
        let (expected, _) = expected(described.rule(), &arrays, 7);
        let reports = team((1, 3), |me| {
            let sweep = Sweep::new(described.clone()).iterations(7).depth(4);
            let sweep = sweep.runner(Runner::pool(2));
            let (fields, report) = sweep.gather_arrays_on(me, &arrays, &[]).unwrap();
            assert_eq!(difference(&fields[0], &expected[0]), None, "{directions}");
            report
        });
        let depth = match reports[0].plan {
            SweepPlan::Arrays(plan) => plan.depth,
            _ => unreachable!("a sweep over arrays"),
        };
        assert!(depth > 1, "{directions}: no pass has two engines");
    }
}

#[test]
fn a_team_refuses_cuts_that_lean_both_ways() {
    let described = smoother("'down-south-east', 'up-north-east'");
    let arrays = [Array::zeros(syncline_store::ElementType::Float64, &[4, 4, 90]).unwrap()];
    for (members, refused) in [(1, false), (2, true)] {
        let outcomes = team((1, members), |me| {
            let sweep = Sweep::new(described.clone()).iterations(2).runner(Runner::pool(1));
            sweep.gather_arrays_on(me, &arrays, &[]).map(drop).map_err(|error| error.to_string())
        });
        let message = "a kernel of three dimensions with directions of both south-east or \
                       north-west and south-west or north-east is not available on a team: run it \
                       in one process";
        let expected = if refused { Err(message.to_owned()) } else { Ok(()) };
        assert!(outcomes.iter().all(|outcome| *outcome == expected), "{outcomes:?}");
    }
}

/// Plans that no run would choose, at cuts as close as they may be.
#[test]
fn ordered_rules_have_the_bits_of_the_plain_loop_in_any_bands() {
    let first = seed(0);
    random_bands(first..first + u64::from(cases(250)), &wider_case);
    random_bands(first..first + u64::from(cases(200)), &solid_case);
}

fn random_bands(cases: std::ops::Range<u64>, case: &Cases) {
    let (mut runs, all) = (0, cases.end - cases.start);
    for number in cases {
        let more = (number % 4) as usize * 40;
        let Some(case) = case(number, more) else { continue };
        let Case { text, described, dims, arrays, mut random } = case;
        let rule = described.rule();
        let hosts = random.one_of(&[(1, 2), (1, 3), (1, 5), (2, 1), (2, 2)]);
        let members = hosts.0 * hosts.1;
        let (iterations, threads) = (random.within(1..=9) as u64, random.within(1..=3));
        let sweep = Sweep::new(described.clone())
            .iterations(iterations)
            .until(if random.one_in(2) { 1.0 } else { -0.0 })
            .exact_stop(random.one_in(2))
            .lanes(random.one_of(&every_lanes()))
            .runner(Runner::pool(threads));
        let inputs: Vec<_> = arrays.iter().map(Input::Memory).collect();
        let elements: Vec<_> = inputs.iter().map(Input::element).collect();
        let (depth, band) = (random.within(1..=6) as u64, random.within(1..=12));
        let flight = random.within(2..=4);
        let question = Question {
            rule,
            dims: three(&dims),
            members,
            together: 1,
            elements: &elements,
            on_file: &vec![false; elements.len()],
            result_on_file: false,
            copied: false,
            iterations,
            converges: true,
            depth: Some(depth),
            deepest: depth,
            threads: flight - 1,
            flight: None,
            around: 0,
            memory: u64::MAX,
            cache: 1 << 20,
            disk: None,
        };
        if rule.explicit || rule.leans_both_ways() {
            continue;
        }
        let Some(columns) = question.columns(depth as usize, band) else { continue };
        let (piece, passes) = (random.within(1..=60), iterations.div_ceil(depth));
        let plan = ArrayPlan { depth, passes, band, piece, flight, twice: 0, memory: 0 };
        runs += 1;
        let up = rule.direction(0).up;
        let levels = (0..depth).take_while(|&i| rule.direction(i).up == up).count() as u64;
        for g in ordered::chain(rule, three(&dims), (band, flight), 0..levels) {
            let part = ordered::Part::new(&columns, 0, &g);
            for cut in 0..members - 1 {
                let [forward, back] = part.most(&g, cut);
                assert!((forward + back) as u64 <= g.crossing_values(), "case {number}: {plan:?}");
            }
        }
        let outcomes = team(hosts, |me| {
            let sweep = sweep.clone().monitor(std::sync::Arc::new(Monitor::new()));
            let on_team = OnTeam {
                kernel: Computes::Rule(&described),
                inputs: &inputs,
                settings: &sweep.settings,
            };
            let agreed = Agreed {
                begun: std::time::Instant::now(),
                identity: Identity::default(),
                plan: SweepPlan::Arrays(plan),
                division: Division::Columns(Arc::new(columns.clone())),
                share: Share::whole(dims[0]),
                groups: Groups::of(me),
                npy: true,
                in_memory: true,
            };
            on_team.gather_as(&agreed, Vec::new(), me)
        });
        for outcome in outcomes {
            let (fields, report) = outcome.unwrap();
            let (expected, _) = expected(rule, &arrays, report.iterations);
            for (n, (field, expected)) in fields.iter().zip(&expected).enumerate() {
                if let Some(difference) = difference(field, expected) {
                    panic!(
                        "case {number}, {dims:?}, {hosts:?}, {iterations} iterations, {plan:?}, \
                         {columns:?}: field {n}, {difference}\n{text}"
                    );
                }
            }
        }
    }
    assert!(runs > all / 8, "{runs} of {all}");
}

/// All members end with the error of the one that could not open the files, and do not wait for it.
#[test]
fn a_member_that_cannot_open_the_files_of_a_copy_is_an_error_of_all() {
    let described =
        Described::parse("name = 'half'\nfield = 'u'\nupdate = 'u = (n + w) / 2'").unwrap();
    let array = Array::zeros(syncline_store::ElementType::Float64, &[60, 90]).unwrap();
    let inputs = [Input::Memory(&array)];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result");
    std::fs::write(&path, []).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let target = Target::npy(folder.path().join("result.npy")).in_memory(true);
    for (hosts, broken) in [((1, 3), 0), ((1, 3), 1), ((3, 1), 2)] {
        let errors = team(hosts, |me| {
            let sweep = Sweep::new(described.clone()).iterations(5).runner(Runner::pool(1));
            let on_team = OnTeam {
                kernel: Computes::Rule(&described),
                inputs: &inputs,
                settings: &sweep.settings,
            };
            let agreed = on_team.agree(Some(&target), Ok(()), me).unwrap();
            let (fields, _) = on_team.in_parts(&agreed, Vec::new(), me).unwrap();
            let files = match me.rank() == broken {
                true => Err(failed("open", &path, std::io::Error::other("too many files"))),
                false => Ok(vec![(file.try_clone().unwrap(), path.clone())]),
            };
            let run = on_team.run_of(&agreed, me.rank());
            run.copy_to(files, fields, &Spent::default(), Some(me)).unwrap_err().to_string()
        });
        for (rank, error) in errors.iter().enumerate() {
            assert!(error.contains("too many files") && error.contains("result"), "{error}");
            assert_eq!(error.starts_with(&format!("rank {broken}: ")), rank != broken, "{error}");
        }
    }
}

/// Members that share the reading find the sums of the arrays.
#[test]
fn the_sums_of_files_are_those_of_the_arrays() {
    let folder = tempfile::tempdir().unwrap();
    for (hosts, slabs, unit) in [((1, 1), 9, 2), ((1, 3), 23, 4), ((3, 1), 2, 1), ((2, 2), 40, 7)] {
        let array = |n: usize| {
            let bytes: Vec<u8> = (0..slabs * 5).map(|at| ((at * 7 + n) % 251) as u8).collect();
            Array::from_vec(&[slabs, 5], bytes).unwrap()
        };
        let arrays = [array(0), array(1)];
        let inputs = arrays.each_ref().map(Input::Memory);
        let set: Vec<_> = (0..2)
            .map(|n| {
                let path = folder.path().join(format!("{slabs}-{n}.npy"));
                arrays[n].create(&path).unwrap().commit().unwrap();
                (std::fs::File::open(&path).unwrap(), path)
            })
            .collect();
        let share = Share { unit: Some(unit), ..Share::whole(slabs) };
        let of_arrays = arrays.each_ref().map(|array| SlabSums::of_array(array, unit));
        let expected: Vec<u64> = of_arrays.iter().flat_map(SlabSums::values).copied().collect();
        for sums in team(hosts, |me| sums(&inputs, (&set, true), &share, &Monitor::new(), me)) {
            assert_eq!(sums.unwrap(), expected, "{slabs} slabs in units of {unit}");
        }
    }
}
