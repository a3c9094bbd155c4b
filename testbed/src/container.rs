//! A server that runs in a container.

use std::io;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use testcontainers::core::IntoContainerPort;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt, TestcontainersError};
use tokio::sync::Mutex;

use crate::home::Home;
use crate::ports::Port;
use crate::ready::Contact;
use crate::{FailedStart, FaultError, Options, Service};

/// Longer than for a process: the first database of a container is made while we wait.
const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_SECONDS: i32 = 5;

/// A container, its port of the loopback address, and the directory whose watcher removes it should this process be killed.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) contact: Contact,
    running: Mutex<Option<ContainerAsync<GenericImage>>>,
    options: Options,
    port: Port,
    home: Home,
}

impl Container {
    /// Runs the image of `service` and returns it with its version, or the reason why there is no container to be had here.
    pub(crate) async fn start(
        service: Service,
        options: Options,
    ) -> Result<Result<(Self, String), String>, FailedStart> {
        let socket = socket();
        if let Err(error) = UnixStream::connect(&socket) {
            return Ok(Err(format!("no Docker socket answers at {}: {error}", socket.display())));
        }
        let container = Self::settle(service, options)
            .map_err(|error| FailedStart::new(service, format!("no place to start it in: {error}")))?;
        if let Err(error) = container.run().await {
            return Ok(Err(format!("the image {} does not run: {error}", image(service))));
        }
        let version = container.ready().await?;
        Ok(Ok((container, version)))
    }

    fn settle(service: Service, options: Options) -> io::Result<Self> {
        let port = Port::reserve()?;
        let home = Home::new()?;
        std::fs::write(home.path().join("container"), name(&home))?;
        let mut contact = Contact::new(service, (Ipv4Addr::LOCALHOST, port.number()).into());
        if service == Service::Redis {
            contact.password = options.redis_password().map(str::to_owned);
        }
        Ok(Self { contact, running: Mutex::default(), options, port, home })
    }

    /// The image is pulled when it is not here.
    async fn run(&self) -> Result<(), TestcontainersError> {
        let request = request(self.contact.service, self.port.number(), &self.options);
        let started = request.with_container_name(name(&self.home)).with_startup_timeout(START_LIMIT).start().await?;
        *self.running.lock().await = Some(started);
        Ok(())
    }

    async fn ready(&self) -> Result<String, FailedStart> {
        let answer = self.contact.version_in(START_LIMIT, || true).await;
        answer.map_err(|reason| FailedStart::new(self.contact.service, reason))
    }

    pub(crate) async fn freeze(&self) -> Result<(), FaultError> {
        let running = self.running.lock().await;
        let container = running.as_ref().ok_or(FaultError::NotRunning(self.contact.service))?;
        container.pause().await.map_err(failed("pause the container"))
    }

    pub(crate) async fn thaw(&self) -> Result<(), FaultError> {
        let running = self.running.lock().await;
        let container = running.as_ref().ok_or(FaultError::NotRunning(self.contact.service))?;
        container.unpause().await.map_err(failed("unpause the container"))
    }

    pub(crate) async fn kill(&self) -> Result<(), FaultError> {
        self.end(0).await
    }

    pub(crate) async fn stop(&self) -> Result<(), FaultError> {
        self.end(STOP_SECONDS).await
    }

    pub(crate) async fn restart(&self) -> Result<(), FaultError> {
        self.stop().await?;
        if let Some(container) = self.running.lock().await.as_ref() {
            container.start().await.map_err(failed("start the container"))?;
        }
        self.ready().await?;
        Ok(())
    }

    /// A new container on the old port.
    pub(crate) async fn restart_empty(&self) -> Result<(), FaultError> {
        if let Some(container) = self.running.lock().await.take() {
            container.rm().await.map_err(failed("remove the container"))?;
        }
        self.run().await.map_err(failed("run the image"))?;
        self.ready().await?;
        Ok(())
    }

    async fn end(&self, seconds: i32) -> Result<(), FaultError> {
        let running = self.running.lock().await;
        let Some(container) = running.as_ref() else { return Ok(()) };
        // A paused container takes no signal; one that is not paused says so.
        let _not_paused = container.unpause().await;
        container.stop_with_timeout(Some(seconds)).await.map_err(failed("stop the container"))
    }
}

impl Drop for Container {
    /// Removal needs a runtime, and panics without one: it gets its own, since this drop may happen anywhere.
    fn drop(&mut self) {
        let Some(container) = self.running.get_mut().take() else { return };
        let removal = std::thread::spawn(move || {
            if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
                let _left_to_the_watcher = runtime.block_on(container.rm());
            }
        });
        let _panicked = removal.join();
    }
}

fn failed(what: &'static str) -> impl FnOnce(TestcontainersError) -> FaultError {
    move |error| FaultError::Io { what, source: io::Error::other(error) }
}

/// Unique, as the directory is.
fn name(home: &Home) -> String {
    home.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The socket of `DOCKER_HOST`, else the usual one. A daemon of another host is no use: its ports are not ours.
fn socket() -> PathBuf {
    let host = std::env::var("DOCKER_HOST").unwrap_or_default();
    host.strip_prefix("unix://").map_or_else(|| PathBuf::from("/var/run/docker.sock"), PathBuf::from)
}

/// `LOCKYARD_REDIS_IMAGE` and so on, else an image that its makers publish.
fn image(service: Service) -> String {
    let variable = service.env_var().replace("_URL", "_IMAGE");
    std::env::var(variable).unwrap_or_else(|_| {
        match service {
            Service::Redis => "redis:7",
            Service::Postgres => "postgres:15",
            Service::Etcd => "quay.io/coreos/etcd:v3.5.21",
            Service::Zookeeper => "zookeeper:3.8",
        }
        .to_owned()
    })
}

fn request(service: Service, port: u16, options: &Options) -> ContainerRequest<GenericImage> {
    let image = image(service);
    let (name, tag) = image.rsplit_once(':').unwrap_or((&image, "latest"));
    let inner = service.default_port().tcp();
    let request = GenericImage::new(name, tag).with_exposed_port(inner).with_mapped_port(port, inner);
    let request = request.with_host_config_modifier(|host| {
        let bindings = host.port_bindings.iter_mut().flat_map(|bindings| bindings.values_mut()).flatten().flatten();
        bindings.for_each(|binding| binding.host_ip = Some(Ipv4Addr::LOCALHOST.to_string()));
    });
    let with_args = |command: &[&str]| {
        command.iter().map(|word| (*word).to_owned()).chain(options.args.clone()).collect::<Vec<_>>()
    };
    match service {
        Service::Redis => request.with_cmd(with_args(&["redis-server", "--save", "", "--protected-mode", "no"])),
        Service::Postgres => request.with_env_var("POSTGRES_HOST_AUTH_METHOD", "trust").with_cmd(with_args(&[
            "postgres",
            "-c",
            "client_connection_check_interval=500ms",
            "-c",
            "max_connections=400",
        ])),
        Service::Etcd => request.with_cmd(with_args(&[
            "etcd",
            "--listen-client-urls=http://0.0.0.0:2379",
            &format!("--advertise-client-urls=http://127.0.0.1:{port}"),
            "--heartbeat-interval=50",
            "--election-timeout=250",
        ])),
        Service::Zookeeper => request
            .with_env_var("ZOO_TICK_TIME", "200")
            .with_env_var("ZOO_MAX_CLIENT_CNXNS", "0")
            .with_env_var("ZOO_4LW_COMMANDS_WHITELIST", "*")
            .with_env_var("ZOO_ADMINSERVER_ENABLED", "false")
            .with_env_var("ZOO_CFG_EXTRA", with_args(&["minSessionTimeout=400", "maxSessionTimeout=300000"]).join(" ")),
    }
}
