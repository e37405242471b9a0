//! A pingora reverse proxy to one upstream: `pingora-proxy ADDRESS UPSTREAM`. One thread, no log,
//! connections to the upstream kept.

use async_trait::async_trait;
use pingora::prelude::*;
use pingora::server::configuration::ServerConf;

struct ToOne(String);

#[async_trait]
impl ProxyHttp for ToOne {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _: &mut Session, _: &mut ()) -> Result<Box<HttpPeer>> {
        let peer = HttpPeer::new(self.0.as_str(), false, String::new());
        Ok(Box::new(peer))
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(upstream)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: pingora-proxy ADDRESS UPSTREAM");
        std::process::exit(2);
    };
    let conf = ServerConf {
        threads: 1,
        upstream_keepalive_pool_size: 512,
        ..ServerConf::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut proxy = http_proxy_service(&server.configuration, ToOne(upstream));
    proxy.add_tcp(&address);
    server.add_service(proxy);
    server.run_forever();
}
