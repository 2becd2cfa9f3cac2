//! Does with redis-rs what it is used for: interop-redis-rs host port standalone|cluster [direct].

mod lock;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::error::Error;
use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

use redis::cluster::{ClusterClient, ClusterConnection, cluster_pipe};
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo, SingleNodeRoutingInfo};
use redis::streams::{StreamReadOptions, StreamReadReply};
use redis::{Client, Cmd, Commands, Connection, ConnectionLike, ErrorKind, RedisResult, Script, ServerErrorKind, Value, cmd};

type Outcome = Result<(), Box<dyn Error>>;

/// What the two kinds of connection do each in its own way.
trait Mode: ConnectionLike + Sized {
    fn pipeline(&mut self, commands: Vec<Cmd>) -> RedisResult<Vec<Value>>;
    fn scan_all(&mut self, pattern: &str) -> RedisResult<HashSet<String>>;
}

impl Mode for Connection {
    fn pipeline(&mut self, commands: Vec<Cmd>) -> RedisResult<Vec<Value>> {
        let mut pipe = redis::pipe();
        for command in commands {
            pipe.add_command(command);
        }
        pipe.query(self)
    }

    fn scan_all(&mut self, pattern: &str) -> RedisResult<HashSet<String>> {
        self.scan_match(pattern)?.collect()
    }
}

impl Mode for ClusterConnection {
    fn pipeline(&mut self, commands: Vec<Cmd>) -> RedisResult<Vec<Value>> {
        let mut pipe = cluster_pipe();
        for command in commands {
            pipe.add_command(command);
        }
        pipe.query(self)
    }

    /// Scans node by node: the first call, to all of them, tells their addresses.
    fn scan_all(&mut self, pattern: &str) -> RedisResult<HashSet<String>> {
        let scan = |cursor: u64| cmd("SCAN").arg(cursor).arg("MATCH").arg(pattern).to_owned();
        let everywhere = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        let nodes: BTreeMap<String, (u64, Vec<String>)> = redis::from_redis_value(self.route_command(&scan(0), everywhere)?)?;
        let mut seen = HashSet::new();
        for (address, (mut cursor, keys)) in nodes {
            seen.extend(keys);
            let (host, port) = address.rsplit_once(':').expect("host:port");
            while cursor != 0 {
                let node = SingleNodeRoutingInfo::ByAddress { host: host.into(), port: port.parse().expect("a port") };
                let reply = self.route_command(&scan(cursor), RoutingInfo::SingleNode(node))?;
                let (next, keys): (u64, Vec<String>) = redis::from_redis_value(reply)?;
                cursor = next;
                seen.extend(keys);
            }
        }
        Ok(seen)
    }
}

/// A program that uses Redis.
struct App<C, F: Fn() -> RedisResult<C>> {
    client: Client,
    connect: F,
    redis: C,
    mode: String,
    url: String,
}

fn expect<T: PartialEq + Debug>(what: &str, got: T, wanted: T) -> Outcome {
    if got != wanted {
        let text = format!("{what}: got {got:?}, want {wanted:?}");
        return Err(text.chars().take(300).collect::<String>().into());
    }
    Ok(())
}

impl<C: Mode + Send + 'static, F: Fn() -> RedisResult<C>> App<C, F> {
    fn strings(&mut self) -> Outcome {
        let binary = b"\x00\r\n$5\r\n\xff{}".to_vec();
        expect("SET", self.redis.set_ex("string", &binary, 60)?, "OK".to_string())?;
        expect("GET", self.redis.get::<_, Option<Vec<u8>>>("string")?, Some(binary))?;
        expect("SETNX", self.redis.set_nx("string", "other")?, false)?;
        expect("INCRBY", self.redis.incr("number", 42)?, 42)?;
        expect("GET of nothing", self.redis.get::<_, Option<String>>("missing")?, None)
    }

    fn hashes(&mut self) -> Outcome {
        let fields = [("legs", "4"), ("name", "leash")].map(|(k, v)| (k.to_string(), v.to_string()));
        expect("HSET", self.redis.hset_multiple::<_, _, _, String>("hash", &fields)?, "OK".into())?;
        let got: BTreeMap<String, String> = redis::from_redis_value(cmd("HGETALL").arg("hash").query(&mut self.redis)?)?;
        expect("HGETALL", got, BTreeMap::from(fields))
    }

    fn lists(&mut self) -> Outcome {
        expect("RPUSH", self.redis.rpush("list", &["a", "b", "c"])?, 3)?;
        expect("LRANGE", self.redis.lrange("list", 0, -1)?, ["a", "b", "c"].map(String::from).to_vec())
    }

    fn sets(&mut self) -> Outcome {
        expect("SADD", self.redis.sadd("set", &["a", "b", "a"])?, 2)?;
        let got: BTreeSet<String> = cmd("SMEMBERS").arg("set").query(&mut self.redis)?;
        expect("SMEMBERS", got, BTreeSet::from(["a", "b"].map(String::from)))
    }

    fn zsets(&mut self) -> Outcome {
        expect("ZADD", self.redis.zadd_multiple("zset", &[(1.0, "a"), (2.5, "b")])?, 2)?;
        let got: Vec<(String, f64)> = self.redis.zrange_withscores("zset", 0, -1)?;
        expect("ZRANGE", got, vec![("a".into(), 1.0), ("b".into(), 2.5)])
    }

    fn streams(&mut self) -> Outcome {
        let mut ids: Vec<String> = Vec::new();
        for n in 0..3 {
            ids.extend(self.redis.xadd::<_, _, _, _, Option<String>>("stream", "*", &[("n", n)])?);
        }
        let _: () = self.redis.xgroup_create("stream", "group", "0")?;
        let options = StreamReadOptions::default().group("group", "one").block(100);
        let read: Option<StreamReadReply> = self.redis.xread_options(&["stream"], &[">"], &options)?;
        let got: Vec<(String, Option<i64>)> =
            read.iter().flat_map(|r| &r.keys).flat_map(|k| &k.ids).map(|m| (m.id.clone(), m.get("n"))).collect();
        expect("XREADGROUP", got, ids.iter().cloned().zip([0, 1, 2].map(Some)).collect())?;
        expect("XACK", self.redis.xack("stream", "group", &[&ids[0], &ids[2]])?, 2)?;
        let pending: (i64, Value, Value, Value) = cmd("XPENDING").arg("stream").arg("group").query(&mut self.redis)?;
        expect("XPENDING", pending.0, 1)?;
        let nothing: Option<StreamReadReply> = self.redis.xread_options(&["stream"], &[">"], &options)?;
        expect("XREADGROUP BLOCK of nothing", nothing.is_none(), true)
    }

    fn keys_over_slots(&mut self) -> Outcome {
        let pairs: Vec<(String, i32)> = (0..100).map(|i| (format!("multi:{i}"), i)).collect();
        let keys: Vec<String> = pairs.iter().map(|(key, _)| key.clone()).collect();
        let mut asked = keys.clone();
        asked.push("missing".into());
        let mut values: Vec<Option<i32>> = (0..100).map(Some).collect();
        values.push(None);
        expect("MSET", self.redis.mset(&pairs)?, "OK".to_string())?;
        expect("MGET", cmd("MGET").arg(&asked).query(&mut self.redis)?, values)?;
        expect("DEL", self.redis.del(&keys)?, 100)
    }

    fn pipeline(&mut self) -> Outcome {
        let mut commands = Vec::new();
        let mut wanted = Vec::new();
        for i in 0..5000 {
            let key = format!("pipe:{i}");
            commands.push(Cmd::set(&key, i));
            commands.push(Cmd::get(&key));
            wanted.push(Value::Okay);
            wanted.push(Value::BulkString(i.to_string().into_bytes()));
        }
        expect("replies", self.redis.pipeline(commands)?, wanted)
    }

    fn transaction(&mut self) -> Outcome {
        let mut tx = redis::pipe();
        tx.atomic().set("{tx}text", "words").incr("{tx}number", 7);
        expect("EXEC", tx.query(&mut self.redis)?, ("OK".to_string(), 7))?;
        let wrong = tx.clone().lpush("{tx}text", "no list").query::<()>(&mut self.redis);
        let text = wrong.err().map(|e| e.to_string()).unwrap_or_default();
        expect(&format!("LPUSH to a string: {text}"), text.contains("WRONGTYPE"), true)
    }

    /// Four threads, each with its connection, add to one counter by reading and writing it, 25 times each.
    fn watch(&mut self) -> Outcome {
        let connections: RedisResult<Vec<C>> = (0..4).map(|_| (self.connect)()).collect();
        let add = |mut redis: C| -> RedisResult<()> {
            for _ in 0..25 {
                // It tries again while others are faster.
                redis::transaction(&mut redis, &["counter"], |redis, tx| {
                    let n: i64 = redis.get::<_, Option<i64>>("counter")?.unwrap_or(0);
                    tx.set("counter", n + 1).query::<Option<()>>(redis)
                })?;
            }
            Ok(())
        };
        let workers: Vec<_> = connections?.into_iter().map(|redis| thread::spawn(move || add(redis))).collect();
        for worker in workers {
            worker.join().expect("no panic")?;
        }
        expect("counter", self.redis.get("counter")?, 100)
    }

    /// The cluster's connection has no subscriptions: they go through a plain one in both modes.
    fn pubsub(&mut self) -> Outcome {
        let mut subscriber = self.client.get_connection()?;
        let mut pubsub = subscriber.as_pubsub();
        pubsub.set_read_timeout(Some(Duration::from_secs(5)))?;
        pubsub.subscribe("news")?;
        pubsub.psubscribe("weather.*")?;
        for i in 0..20 {
            for (channel, pattern) in [("news", None), ("weather.sea", Some("weather.*".to_string()))] {
                let _: i64 = self.redis.publish(channel, i)?;
                let message = pubsub.get_message()?;
                let got = (message.get_channel::<String>()?, message.get_pattern::<Option<String>>()?, message.get_payload::<i32>()?);
                expect("message", got, (channel.to_string(), pattern, i))?;
            }
        }
        Ok(())
    }

    fn blocking(&mut self) -> Outcome {
        expect("BLPOP of nothing", self.redis.blpop::<_, Option<(String, String)>>("queue", 0.2)?, None)?;
        let mut pusher = (self.connect)()?;
        let push = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100)); // so that the pop is waiting
            pusher.rpush::<_, _, i64>("queue", "job")
        });
        expect("BLPOP", self.redis.blpop("queue", 10.0)?, Some(("queue".to_string(), "job".to_string())))?;
        expect("RPUSH", push.join().expect("no panic")?, 1)
    }

    fn scripts(&mut self) -> Outcome {
        let script = Script::new(&format!("return {{KEYS[1], ARGV[1] + 1}} -- redis-rs {}", self.mode));
        let mut evalsha = cmd("EVALSHA");
        evalsha.arg(script.get_hash()).arg(1).arg("script").arg(41);
        match evalsha.query::<Value>(&mut self.redis) {
            Err(e) if e.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {}
            other => return Err(format!("EVALSHA of a new script: got {other:?}, want NOSCRIPT").into()),
        }
        let wanted = ("script".to_string(), 42);
        expect("EVALSHA, then SCRIPT LOAD", script.key("script").arg(41).invoke(&mut self.redis)?, wanted.clone())?;
        expect("EVALSHA", evalsha.query(&mut self.redis)?, wanted)
    }

    fn scan(&mut self) -> Outcome {
        self.redis.pipeline((0..10000).map(|i| Cmd::set(format!("scan:{i}"), "")).collect())?;
        expect("keys seen", self.redis.scan_all("scan:*")?.len(), 10000)
    }

    fn large_value(&mut self) -> Outcome {
        let large = b"0123456789abcde\n".repeat(1 << 20);
        expect("SET", self.redis.set("large", &large)?, "OK".to_string())?;
        expect("16 MB come back", self.redis.get::<_, Vec<u8>>("large")? == large, true)
    }

    /// All connections are killed. Only the cluster's connects again by itself.
    fn reconnect(&mut self) -> Outcome {
        let mut killer = self.client.get_connection()?;
        let killed: i64 = cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes").query(&mut killer)?;
        expect("some were killed", killed > 0, true)?;
        let end = Instant::now() + Duration::from_secs(10);
        let mut i = 0;
        while i < 20 {
            match self.redis.set::<_, _, String>(format!("back:{i}"), i) {
                Ok(_) => i += 1,
                Err(e) if Instant::now() > end => return Err(e.into()),
                Err(_) => self.redis = (self.connect)()?,
            }
        }
        Ok(())
    }

    fn locks(&mut self) -> Outcome {
        let token: i64 = cmd("LOCK.ACQUIRE").arg("order:42").query(&mut self.redis)?;
        expect("a token", token > 0, true)?;
        expect("LOCK.ACQUIRE of a taken lock", cmd("LOCK.ACQUIRE").arg("order:42").query(&mut self.redis)?, None::<i64>)?;
        // What this connection took last is released.
        expect("LOCK.RELEASE", cmd("LOCK.RELEASE").arg("order:42").query(&mut self.redis)?, 1)
    }

    /// The lock is held while there is work, and free after it also when that failed; a lost
    /// connection is told. The user has a password.
    fn lock_of_the_docs(&mut self) -> Outcome {
        let url = self.url.replace("://", "://shop:open-sesame@");
        let mut other = self.client.get_connection()?;
        lock::locked(&url, |c| {
            expect("ACL WHOAMI", cmd("ACL").arg("WHOAMI").query(c)?, "shop".to_string())?;
            expect("LOCK.ACQUIRE at work", cmd("LOCK.ACQUIRE").arg("order:42").query(&mut other)?, None::<i64>)
        })?;
        let failed = lock::locked(&url, |_| Err("at work".into()));
        expect("the error of the work", failed.map_err(|e| e.to_string()), Err("at work".to_string()))?;
        let lost = lock::locked(&url, |c| {
            let id: i64 = cmd("CLIENT").arg("ID").query(c)?;
            let _: i64 = cmd("CLIENT").arg("KILL").arg("ID").arg(id).query(&mut other)?;
            Ok(cmd("GET").arg("stock:42").exec(c)?)
        });
        expect("the loss gets out of the lock", lost.is_err(), true)?;
        let _: i64 = self.redis.del("order:42")?; // Leash leaves it to run out
        Ok(())
    }

    fn run(&mut self, direct: bool) -> bool {
        let mut steps: Vec<(&str, fn(&mut Self) -> Outcome)> = vec![
            ("strings", Self::strings), ("hashes", Self::hashes), ("lists", Self::lists), ("sets", Self::sets),
            ("zsets", Self::zsets), ("streams", Self::streams), ("keys over slots", Self::keys_over_slots),
            ("pipeline", Self::pipeline), ("pub/sub", Self::pubsub), ("blocking", Self::blocking),
            ("scripts", Self::scripts), ("scan", Self::scan), ("large value", Self::large_value),
        ];
        if self.mode == "standalone" { // the cluster's connection has no transactions
            steps.extend([("transaction", Self::transaction as fn(&mut Self) -> Outcome), ("watch", Self::watch)]);
        }
        steps.push(("reconnect", Self::reconnect));
        if !direct {
            steps.push(("locks", Self::locks));
            if self.mode == "standalone" {
                steps.push(("lock of the docs", Self::lock_of_the_docs));
            }
        }
        let mut passed = true;
        for (name, step) in steps {
            match step(self) {
                Ok(()) => println!("ok {name}"),
                Err(e) => {
                    passed = false;
                    println!("FAILED {name}: {e}");
                }
            }
        }
        passed
    }
}

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().collect();
    let scheme = if std::env::var_os("INTEROP_TLS").is_some() { "rediss" } else { "redis" };
    let url = format!("{scheme}://{}:{}", args[1], args[2]);
    let (mode, direct) = (args[3].clone(), args.len() > 4);
    let client = Client::open(url.as_str())?;
    let passed = if mode == "cluster" {
        let cluster = ClusterClient::new([url.as_str()])?;
        let connect = || cluster.get_connection();
        App { client, redis: connect()?, connect, mode, url }.run(direct)
    } else {
        let plain = client.clone();
        let connect = || plain.get_connection();
        App { client, redis: connect()?, connect, mode, url }.run(direct)
    };
    std::process::exit(if passed { 0 } else { 1 })
}
