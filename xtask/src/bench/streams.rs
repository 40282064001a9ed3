//! What a streamed token costs on its way to a plugin and to a page, against a bare loop over the same server; what many
//! streams at once cost; and how long a stop takes. The server runs in this program, so its work is not counted.

use super::model::Model;
use super::{RUNS, Values, example, goals, read};
use crate::place::Place;
use crate::step;

pub fn measure(place: &Place, values: &mut Values) -> Vec<String> {
    let model = match Model::start() {
        Ok(model) => model,
        Err(problem) => return vec![problem],
    };
    let url = format!("http://{}/v1", model.at);
    for run in 1..=RUNS {
        println!("==> streams: run {run} of {RUNS}");
        let mut found = Values::new();
        for program in ["bare-stream", "bench-streams"] {
            match step::output(example(place, program, &[&url])) {
                Ok(text) => read(&text, &mut found),
                Err(problem) => return vec![problem],
            }
        }
        goals::relate(&mut found);
        for (name, numbers) in found {
            values.entry(name).or_default().extend(numbers);
        }
    }
    Vec::new()
}
