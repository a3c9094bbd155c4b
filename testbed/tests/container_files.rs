//! The compose file and the workflow are for machines with containers. Here they are parsed and compared with what the
//! testbed knows of the services; that the containers run is not shown by this.

use std::path::Path;

use lockyard_testbed::Service;
use yaml_rust2::{Yaml, YamlLoader};

fn yaml(path: &str) -> Yaml {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut documents = YamlLoader::load_from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert_eq!(documents.len(), 1, "{path} is one document");
    documents.remove(0)
}

fn ports(service: &Yaml) -> Vec<String> {
    service["ports"].as_vec().expect("a list of ports").iter().filter_map(Yaml::as_str).map(str::to_owned).collect()
}

#[test]
fn the_compose_file_has_the_four_services_on_loopback() {
    let file = yaml("compose.yaml");
    let services = file["services"].as_hash().expect("services");
    assert_eq!(services.len(), Service::ALL.len());
    for service in Service::ALL {
        let entry = &file["services"][service.id()];
        let port = service.default_port();
        assert_eq!(ports(entry), [format!("127.0.0.1:{port}:{port}")], "{service}");
        assert!(entry["image"].as_str().is_some_and(|image| image.contains(':')), "{service} has a fixed version");
        assert!(entry["healthcheck"]["test"].as_vec().is_some(), "{service} says when it is ready");
    }
}

#[test]
fn the_workflow_joins_the_four_services() {
    let file = yaml(".github/workflows/ci.yml");
    let job = &file["jobs"]["joined"];
    for service in Service::ALL {
        let port = service.default_port();
        assert_eq!(ports(&job["services"][service.id()]), [format!("{port}:{port}")], "{service}");
        let url = job["env"][service.env_var()].as_str().unwrap_or_else(|| panic!("{} is set", service.env_var()));
        assert!(url.contains(&format!(":{port}")), "{url}");
    }
    let required = job["env"]["LOCKYARD_REQUIRE"].as_str().expect("nothing may be missing");
    assert_eq!(required.split(',').collect::<Vec<_>>(), Service::ALL.map(Service::id));
    assert!(file["jobs"]["full"]["steps"].as_vec().is_some_and(|steps| !steps.is_empty()));
}
