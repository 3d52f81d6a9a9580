// Real programs with libholdfast-malloc.so in the place of malloc: they say what they say without it.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "segment/test_support.hpp"

namespace holdfast {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct answer {
    int status = -1;
    std::string out;
    std::string error;
};

std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

class malloc_programs_test : public testing::Test {
protected:
    /// Runs a script of the shell, in a directory that is empty but for what earlier ones left. `settings`: variables
    /// of the environment, before the program that is named first.
    [[nodiscard]] answer run(const std::string& script, const std::string& settings = {}) const {
        std::ofstream(directory_.path("script")) << script;
        const std::string command =
            "cd " + directory_.path() + " && env -u HOLDFAST_MALLOC_HEAP " + settings + " bash script > out 2> error";
        answer got;
        const int status = std::system(command.c_str());  // NOLINT(cert-env33-c,concurrency-mt-unsafe)
        got.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
        got.out = content(directory_.path("out"));
        got.error = content(directory_.path("error"));
        return got;
    }
    static std::string preloaded() { return "LD_PRELOAD=" HOLDFAST_MALLOC_LIBRARY; }
    [[nodiscard]] std::string on_heap() const {
        return preloaded() + " HOLDFAST_MALLOC_HEAP=" + directory_.path("heap");
    }
    /// The script succeeds without the library. With the library it has the same status and output: in a heap without
    /// files and, if `with_path`, in a heap with a path. A script that forks too often for that says false.
    void expect_same(const std::string& script, bool with_path = true) const {
        const answer plain = run(script);
        EXPECT_EQ(plain.status, 0) << plain.error;
        EXPECT_NE(plain.out, "");
        for (const std::string& settings : {preloaded(), with_path ? on_heap() : std::string()}) {
            if (!settings.empty()) {
                const answer got = run(script, settings);
                EXPECT_EQ(got.status, plain.status) << settings << got.error;
                EXPECT_EQ(got.out, plain.out) << settings;
                EXPECT_EQ(got.error.find("holdfast"), std::string::npos) << got.error;
            }
        }
    }
    segment::test_directory directory_;
};

TEST_F(malloc_programs_test, every_function_works_in_threads_and_across_forks) {
    for (const std::string& settings : {preloaded(), on_heap()}) {
        const answer got = run("exec " HOLDFAST_MALLOC_EXERCISE " 4", settings + " HOLDFAST_MALLOC_STATS=1");
        EXPECT_EQ(got.status, 0) << got.error;
        EXPECT_EQ(got.out, "sound\n");
        EXPECT_THAT(got.error, HasSubstr("bytes of user space")) << "it is the library that was asked";
    }
    const manager heap(open_read_only, directory_.path("heap"));
    EXPECT_FALSE(heap.statistics().recovered);
    EXPECT_THAT(heap.check(true), IsEmpty());
}

TEST_F(malloc_programs_test, threads_hand_blocks_over_and_end_at_random) {
    for (const std::string& settings : {preloaded(), on_heap()}) {
        const answer got = run("exec " HOLDFAST_MALLOC_STRESS " 4 3 20000", settings);
        EXPECT_EQ(got.status, 0) << settings << got.error;
        EXPECT_EQ(got.out, "sound\n");
    }
    EXPECT_THAT(manager(open_read_only, directory_.path("heap")).check(true), IsEmpty());
}

TEST_F(malloc_programs_test, soak_threads_hand_blocks_over) {
    for (const std::string& settings : {preloaded(), on_heap()}) {
        const answer got = run("exec " HOLDFAST_MALLOC_STRESS " 16 20 200000", settings);
        EXPECT_EQ(got.status, 0) << settings << got.error;
        EXPECT_EQ(got.out, "sound\n");
    }
}

/// What user code runs under such a lock may wait for calls of malloc, also of threads that begin, end or fork.
TEST_F(malloc_programs_test, no_call_waits_for_a_lock_of_the_c_library_or_the_loader) {
    for (const char* const what : {"loader", "segments", "streams", "signals", "threads", "mixed"}) {
        for (const std::string& settings : {preloaded(), preloaded() + " HOLDFAST_MALLOC_HARDENED=1", on_heap()}) {
            const answer got = run("exec " HOLDFAST_MALLOC_LOCKS " " + std::string(what), settings);
            EXPECT_EQ(got.status, 0) << what << " " << settings << got.error;
            EXPECT_EQ(got.out, "sound\n") << what << " " << settings << got.error;
        }
    }
}

TEST_F(malloc_programs_test, no_call_calls_what_takes_a_lock_of_the_c_library) {
    const std::string small_and_hardened = preloaded() + " HOLDFAST_MALLOC_HARDENED=1 HOLDFAST_MALLOC_SIZE=64M";
    for (const std::string& settings : {preloaded(), small_and_hardened, on_heap()}) {
        const answer got = run("exec " HOLDFAST_MALLOC_WATCH, settings);
        EXPECT_EQ(got.status, 0) << settings << got.error;
        EXPECT_EQ(got.out, "sound\n") << settings << got.error;
    }
}

TEST_F(malloc_programs_test, invalid_frees_are_named_once_and_ignored) {
    const answer got = run("exec " HOLDFAST_MALLOC_EXERCISE " wild", preloaded());
    EXPECT_EQ(got.status, 0) << got.error;
    EXPECT_EQ(got.out, "sound\n");
    EXPECT_THAT(got.error, HasSubstr("holdfast-malloc: free of 0x"));
    EXPECT_EQ(got.error.find("holdfast-malloc"), got.error.rfind("holdfast-malloc")) << got.error;
}

TEST_F(malloc_programs_test, a_heap_that_is_too_small_is_enomem_and_no_crash) {
    const answer got =
        run("exec python3 -c '\na = []\ntry:\n    while True: a.append(bytearray(100000))\n"
            "except MemoryError:\n    n = len(a); del a; print(150 < n < 700)'",
            preloaded() + " HOLDFAST_MALLOC_SIZE=64M");
    EXPECT_EQ(got.status, 0) << got.error;
    EXPECT_EQ(got.out, "True\n");
}

TEST_F(malloc_programs_test, shells) {
    expect_same(R"sh(for shell in sh bash; do $shell -c '
        i=0; while [ $i -lt 200 ]; do x=$(echo $i | sed s/1/one/); i=$((i+1)); done; echo $x
        (echo in a subshell; (echo in another)) | cat | sort -r
        sleep 0 & wait; printf "%s\n" "$(seq 1 500 | awk "{ s += \$1 } END { print s }")"'; done
        bash -c 'a=(); for i in {1..20000}; do a+=("$i x"); done; echo ${#a[@]} ${a[777]}
                 declare -A m; for i in {1..3000}; do m[$i]=$((i*i)); done; echo ${m[55]}; (unset a; echo ${
#a[@]})
                 grep -c x <(printf "%s\n" "${a[@]}")')sh");
}

TEST_F(malloc_programs_test, python) {
    expect_same(R"sh(exec python3 -c '
import os, re, sys, json, threading, subprocess, collections
d = {i: [str(i)] * 5 for i in range(50000)}
text = json.dumps(d); assert json.loads(text)["77"] == ["77"] * 5
print(len(text), len(re.findall("7+", text)), collections.Counter(text).most_common(3))
total = []
def work(k): total.append(sum(len(str(i)) for i in range(20000 * k)))
threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(total))
sys.stdout.flush()
for i in range(5):
    if os.fork() == 0:
        x = {k: str(k) for k in range(20000)}; os._exit(len(x) % 256)
    print(os.wait()[1])
print(subprocess.run(["echo", "child"], capture_output=True, text=True).stdout)
')sh");
}

TEST_F(malloc_programs_test, sqlite) {
    expect_same(R"sh(exec sqlite3 :memory: "
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 50000)
    insert into t select i, printf('row %d of %x', i, i * 7919), i * 1.5 from n;
create index tb on t(b);
select count(*), sum(a), avg(c) from t;
select count(*) from t x join t y on x.b = y.b where x.a % 7 = 0;
select group_concat(a) from (select a from t where b like '%f0%' order by c desc limit 50);
delete from t where a % 3 = 0; vacuum; select count(*), sum(length(b)) from t;")sh");
}

TEST_F(malloc_programs_test, gcc) {
    expect_same(
        "for unit in segment/superblock extent/free_index base/failure; do "
        "g++ -std=c++20 -O1 -DFMT_HEADER_ONLY -DXXH_INLINE_ALL -DHOLDFAST_CHECKED=0 -DHOLDFAST_MUTANTS=0 "
        "-I" HOLDFAST_SOURCE_ROOT " -c " HOLDFAST_SOURCE_ROOT "/$unit.cpp -o unit.o && md5sum < unit.o; done",
        false);
}

TEST_F(malloc_programs_test, soak_python_and_its_own_tests) {
    for (const std::string& settings : {std::string(), preloaded(), on_heap()}) {
        const answer got =
            run("exec python3 -m test -q test_dict test_list test_json test_re test_set test_bytes "
                "test_gc test_fork1 test_subprocess test_threadedtempfile",
                settings);
        EXPECT_EQ(got.status, 0) << settings << got.out << got.error;
        EXPECT_THAT(got.out, HasSubstr("SUCCESS"));
    }
}

TEST_F(malloc_programs_test, soak_jvm) {
    std::ofstream(directory_.path("Sums.java")) << R"java(import java.util.*;
public class Sums {
    public static void main(String[] none) throws Exception {
        Map<Integer, String> map = new HashMap<>();
        for (int i = 0; i < 300000; i++) map.put(i, "v" + i);
        long sum = 0;
        for (String value : map.values()) sum += value.hashCode();
        Thread[] threads = new Thread[8];
        long[] results = new long[8];
        for (int k = 0; k < 8; k++) {
            int mine = k;
            threads[k] = new Thread(() -> {
                StringBuilder text = new StringBuilder();
                for (int i = 0; i < 100000; i++) text.append(i * mine);
                results[mine] = text.toString().hashCode();
            });
            threads[k].start();
        }
        for (Thread one : threads) one.join();
        for (long one : results) sum += one;
        System.out.println(sum);
    }
})java";
    expect_same("exec java Sums.java");
}

TEST_F(malloc_programs_test, soak_redis) {
    expect_same(R"sh(rm -f dump.rdb
redis-server --port 0 --unixsocket $PWD/socket --save '' --dir $PWD > redis.log 2>&1 &
server=$!
until redis-cli -s socket ping 2>/dev/null | grep -q PONG; do kill -0 $server || exit 1; done
redis-benchmark -s socket -q -n 20000 -r 1000 -t set,get,lpush,hset,zadd -d 100 > /dev/null || exit 1
for i in 1 2 3 4 5; do redis-cli -s socket set key$i $(seq -s, 1 $((i * 100))) ; done
redis-cli -s socket save
redis-cli -s socket get key3
redis-cli -s socket llen mylist
redis-cli -s socket shutdown nosave
wait $server; echo $?)sh",
                false);
}

}  // namespace
}  // namespace holdfast
