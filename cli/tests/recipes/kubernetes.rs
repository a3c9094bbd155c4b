//! The CronJob of docs/run.md: what the API server would read, and the command in it.

use std::process::Stdio;

use k8s_openapi::api::batch::v1::CronJob;
use serde_json::{Map, Number, Value};
use tokio::process::Command;
use yaml_rust2::{Yaml, YamlLoader};

use super::{block, open, placed, site};

#[tokio::test]
async fn the_cron_job_is_one_and_starts_the_script() {
    let written = json(&YamlLoader::load_from_str(&block("yaml")).expect("YAML")[0]);
    let job: CronJob = serde_json::from_value(written.clone()).expect("a CronJob");
    // Strictly: a field that the type does not know would be gone.
    assert_eq!(serde_json::to_value(&job).expect("JSON"), written);
    let spec = job.spec.expect("what it does");
    assert_eq!(spec.schedule.split(' ').count(), 5);
    let pod = spec.job_template.spec.and_then(|job| job.template.spec).expect("a pod");
    let container = pod.containers.into_iter().next().expect("a container");
    let words = container.command.expect("a command");

    let scratch = site();
    let line: Vec<String> = words.iter().map(|word| placed(word, &scratch)).collect();
    assert_eq!(line[0], "lockyard");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockyard"));
    command.args(&line[1..]).stdin(Stdio::piped()).kill_on_drop(true);
    for variable in container.env.expect("its environment") {
        assert_eq!(variable.name, "LOCKYARD_URL");
        command.env(variable.name, scratch.url());
    }
    let run = command.spawn().expect("starts");
    assert_eq!(open(&scratch, run).await, Some(0));
}

fn json(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::Hash(map) => {
            let entry = |(key, value): (&Yaml, &Yaml)| (key.as_str().expect("a text").to_owned(), json(value));
            Value::Object(map.iter().map(entry).collect::<Map<_, _>>())
        }
        Yaml::Array(values) => Value::Array(values.iter().map(json).collect()),
        Yaml::String(text) => Value::String(text.clone()),
        Yaml::Integer(number) => Value::Number(Number::from(*number)),
        Yaml::Boolean(value) => Value::Bool(*value),
        other => panic!("not expected in a manifest: {other:?}"),
    }
}
