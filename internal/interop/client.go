package main

// The modes of a client.
const (
	standalone = "standalone"
	cluster    = "cluster"
	failover   = "failover" // of a master that sentinels name
)

// A client is a client library with its program.
type client struct {
	name    string
	dir     string   // below the directory of all
	prepare []string // commands that fetch and build what is in dir, run there
	program string   // the command that runs the program, in dir
	modes   []string

	// peers says that the program also uses clients of Redis itself. It gets the addresses of
	// Redis, or for a failover those of the sentinels, too.
	peers bool
	// pair says that the program needs two Leashes. It gets the address of the second, too.
	pair bool
}

// java uses only the compiler and the collector that start fast, because the programs run for
// seconds.
const java = "java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

// redisson prepares both of its versions. A program that was compiled with the latest version also
// runs with the old one.
var redisson = []string{
	"mvn -q -B compile dependency:copy-dependencies -DoutputDirectory=target/latest",
	"mvn -q -B dependency:copy-dependencies -Dredisson.version=3.16.8 -Dslf4j.version=1.7.36 -DoutputDirectory=target/old",
}

// clients are in the order in which they run. Those that take long to build are last.
var clients = []client{
	{
		name: "go-redis", dir: "goredis", modes: []string{standalone, cluster},
		prepare: []string{"go build -o bin/interop ."},
		program: "bin/interop",
	},
	{
		name: "ioredis", dir: "ioredis", modes: []string{standalone, cluster},
		prepare: []string{"npm ci --no-audit --no-fund --loglevel=error"},
		program: "node main.js",
	},
	{
		name: "node-redis", dir: "noderedis", modes: []string{standalone, cluster},
		prepare: []string{"npm ci --no-audit --no-fund --loglevel=error"},
		program: "node main.js",
	},
	{
		name: "socketio", dir: "socketio", modes: []string{standalone, cluster}, pair: true,
		prepare: []string{"npm ci --no-audit --no-fund --loglevel=error"},
		program: "node main.js",
	},
	{
		name: "redis-py", dir: "redispy", modes: []string{standalone, cluster},
		prepare: []string{"python3 -m venv .venv", ".venv/bin/pip install --quiet -r requirements.txt"},
		program: ".venv/bin/python interop_sync.py",
	},
	{
		name: "redis-py-asyncio", dir: "redispy", modes: []string{standalone, cluster},
		prepare: []string{"python3 -m venv .venv", ".venv/bin/pip install --quiet -r requirements.txt"},
		program: ".venv/bin/python interop_asyncio.py",
	},
	{
		name: "phpredis", dir: "phpredis", modes: []string{standalone, cluster},
		program: "php main.php",
	},
	{
		name: "jedis", dir: "jedis", modes: []string{standalone, cluster},
		prepare: []string{"mvn -q -B compile dependency:copy-dependencies -DoutputDirectory=target/lib"},
		program: java + " -cp target/classes:target/lib/* Interop",
	},
	{
		name: "lettuce", dir: "lettuce", modes: []string{standalone, cluster},
		prepare: []string{"mvn -q -B compile dependency:copy-dependencies -DoutputDirectory=target/lib"},
		program: java + " -cp target/classes:target/lib/* Interop",
	},
	{
		name: "redisson", dir: "redisson", modes: []string{standalone, cluster}, peers: true,
		prepare: redisson,
		program: java + " -cp target/classes:target/latest/* Interop",
	},
	{
		name: "redisson-3.16", dir: "redisson", modes: []string{standalone, cluster}, peers: true,
		prepare: redisson,
		program: java + " -cp target/classes:target/old/* Interop",
	},
	{
		name: "redis-rs", dir: "redisrs", modes: []string{standalone, cluster},
		prepare: []string{"cargo build --quiet --locked"},
		program: "target/debug/interop-redis-rs",
	},
	{ // last, because the programs before it use the master that it changes
		name: "go-redis-failover", dir: "goredis", modes: []string{failover}, peers: true,
		prepare: []string{"go build -o bin/interop ."},
		program: "bin/interop",
	},
}

func names() []string {
	var names []string
	for _, c := range clients {
		names = append(names, c.name)
	}
	return names
}
