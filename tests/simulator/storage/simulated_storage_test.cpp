// The simulated file system is as harsh as the contract in persist/storage.hpp allows, and the explorer finds what it
// must.
#include "simulator/storage/simulated_storage.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "base/checksum.hpp"
#include "simulator/crash_explorer.hpp"

namespace holdfast::simulator {
namespace {

using base::failure_code;
using persist::access_mode;

std::vector<std::byte> filled(std::size_t size, unsigned value) {
    return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

std::unique_ptr<persist::file> make(simulated_storage& storage, const std::string& path) {
    auto made = storage.create(path, "test.create");
    EXPECT_TRUE(made.ok()) << made.error().message();
    return std::move(made).value();
}

/// Name and content are durable.
std::unique_ptr<persist::file> make_durable(simulated_storage& storage, const std::string& path, std::size_t bytes) {
    auto made = make(storage, path);
    EXPECT_TRUE(made->write_at(0, filled(bytes, 1), "test.write").ok());
    EXPECT_TRUE(made->sync("test.sync").ok());
    EXPECT_TRUE(storage.sync_directory("/", "test.sync_directory").ok());
    EXPECT_EQ(storage.pending_atoms(), 0U);
    return made;
}

/// The distinct results of `look` over all crash images.
template <class Look>
auto seen_in_images(const simulated_storage& storage, Look look) {
    std::set<decltype(look(storage.current()))> seen;
    storage.for_each_crash_image({}, 1, [&](const storage_image& left) {
        seen.insert(look(left));
        return true;
    });
    return seen;
}

/// The first byte of each sector as text; "-" if the file is missing.
auto sectors_of(const std::string& path, std::size_t sector = 512) {
    return [=](const storage_image& left) {
        if (!left.names->contains(normal_path(path))) {
            return std::string{"-"};
        }
        const auto bytes = left.bytes_of(path);
        std::string text;
        for (std::size_t at = 0; at < bytes.size(); at += sector) {
            text += std::to_string(std::to_integer<int>(bytes[at]));
        }
        return text;
    };
}

TEST(simulated_storage, BehavesAsAFileSystem) {
    simulated_storage storage(512);
    ASSERT_TRUE(storage.make_directory("/heap", "test.mkdir").ok());
    EXPECT_EQ(storage.make_directory("/heap", "test.mkdir").error().code, failure_code::already_exists);
    EXPECT_EQ(storage.open("/heap/a", access_mode::read_only).error().code, failure_code::missing);
    EXPECT_FALSE(storage.create("/nowhere/a", "test.create").ok());
    const auto file = make(storage, "/heap/a");
    EXPECT_EQ(storage.create("/heap/a", "test.create").error().code, failure_code::already_exists);
    ASSERT_TRUE(file->write_at(10, filled(5000, 7), "test.write").ok());
    EXPECT_EQ(file->size().value(), 5010U);
    std::vector<std::byte> back(5000);
    ASSERT_TRUE(file->read_at(10, back).ok());
    EXPECT_EQ(back, filled(5000, 7));
    const auto past = file->read_at(11, back);
    ASSERT_FALSE(past.ok());
    EXPECT_EQ(past.error().code, failure_code::corrupt);
    EXPECT_EQ(past.error().found, "5010");
    ASSERT_TRUE(file->resize(100, "test.resize").ok());
    ASSERT_TRUE(file->resize(200, "test.resize").ok());
    std::vector<std::byte> tail(100);
    ASSERT_TRUE(file->read_at(100, tail).ok());
    EXPECT_EQ(tail, filled(100, 0));
    ASSERT_TRUE(file->allocate(0, 9000, "test.allocate").ok());
    EXPECT_EQ(file->size().value(), 9000U);
    ASSERT_TRUE(storage.rename("/heap/a", "/heap/b", "test.rename").ok());
    make(storage, "/heap/a");
    EXPECT_EQ(storage.list("/heap").value(), (std::vector<std::string>{"a", "b"}));
    EXPECT_FALSE(storage.remove("/heap", "test.remove").ok());
    EXPECT_TRUE(storage.remove("/heap/a", "test.remove").ok());
    EXPECT_TRUE(storage.remove("/heap/a", "test.remove").ok());
    EXPECT_FALSE(storage.exists("/heap/a").value());
    const auto read_only = storage.open("/heap/b", access_mode::read_only);
    EXPECT_FALSE((*read_only)->write_at(0, filled(1, 1), "test.write").ok());
    EXPECT_EQ((*read_only)->native_handle(), -1);
}

TEST(simulated_storage, LinksLeadToDirectories) {
    simulated_storage machine(512);
    ASSERT_TRUE(machine.make_directory("/far", "test").ok());
    ASSERT_TRUE(machine.make_directory("/heap", "test").ok());
    ASSERT_TRUE(machine.make_link("/heap/node", "/far/inside", "test").ok());
    EXPECT_FALSE(machine.create("/heap/node/a", "test").ok()) << "nothing is there yet";
    ASSERT_TRUE(machine.make_directory("/far/inside", "test").ok());
    ASSERT_TRUE(machine.create("/heap/node/a", "test").ok());
    EXPECT_TRUE(*machine.exists("/far/inside/a"));
    EXPECT_EQ(*machine.list("/heap/node"), std::vector<std::string>{"a"});
    EXPECT_EQ(*machine.link_target("/heap/node"), "/far/inside");
    EXPECT_EQ(*machine.link_target("/far"), "");
    EXPECT_EQ(machine.open("/heap/node", persist::access_mode::read_only).error().found, "link");
    EXPECT_EQ(machine.link_target("/nothing").error().code, base::failure_code::missing);
    EXPECT_EQ(*machine.identity("/heap/node"), *machine.identity("/far/inside"));
    EXPECT_NE(*machine.identity("/heap/node"), *machine.identity("/heap"));
    ASSERT_TRUE(machine.rename("/heap/node/a", "/heap/node/b", "test").ok());
    ASSERT_TRUE(machine.sync_directory("/far", "test").ok());
    ASSERT_TRUE(machine.sync_directory("/heap/node", "test").ok());
    EXPECT_EQ(machine.pending_atoms(), 3U) << "the two directories and the link";
    ASSERT_TRUE(machine.remove("/heap/node", "test").ok());
    EXPECT_FALSE(*machine.exists("/heap/node"));
    EXPECT_TRUE(*machine.exists("/far/inside/b"));
}

TEST(simulated_storage, UnsyncedSectorsSurviveInAnySubset) {
    simulated_storage storage(512);
    const auto file = make_durable(storage, "/a", 1536);
    ASSERT_TRUE(file->write_at(0, filled(1536, 2), "test.write").ok());
    EXPECT_EQ(seen_in_images(storage, sectors_of("/a")),
              (std::set<std::string>{"111", "112", "121", "122", "211", "212", "221", "222"}));
    ASSERT_TRUE(file->sync("test.sync").ok());
    EXPECT_EQ(seen_in_images(storage, sectors_of("/a")), (std::set<std::string>{"222"}));
}

TEST(simulated_storage, SmallAtomsTearWithinASector) {
    simulated_storage storage(8);
    const auto file = make_durable(storage, "/a", 16);
    ASSERT_TRUE(file->write_at(0, filled(16, 2), "test.write").ok());
    EXPECT_EQ(seen_in_images(storage, sectors_of("/a", 8)), (std::set<std::string>{"11", "12", "21", "22"}));
}

TEST(simulated_storage, ALaterWriteMaySurviveAnEarlierOneOfTheSameSector) {
    simulated_storage storage(512);
    const auto file = make_durable(storage, "/a", 1024);
    ASSERT_TRUE(file->write_at(0, filled(512, 2), "test.write").ok());
    ASSERT_TRUE(file->write_at(512, filled(512, 3), "test.write").ok());
    ASSERT_TRUE(file->write_at(0, filled(512, 4), "test.write").ok());
    EXPECT_EQ(seen_in_images(storage, sectors_of("/a")), (std::set<std::string>{"11", "21", "41", "13", "23", "43"}));
}

TEST(simulated_storage, SyncOfAnotherFileHelpsNothing) {
    simulated_storage storage(512);
    const auto a = make_durable(storage, "/a", 512);
    const auto b = make_durable(storage, "/b", 512);
    ASSERT_TRUE(a->write_at(0, filled(512, 2), "test.write").ok());
    ASSERT_TRUE(b->write_at(0, filled(512, 2), "test.write").ok());
    ASSERT_TRUE(b->sync("test.sync").ok());
    EXPECT_EQ(seen_in_images(storage, sectors_of("/a")), (std::set<std::string>{"1", "2"}));
    EXPECT_EQ(seen_in_images(storage, sectors_of("/b")), (std::set<std::string>{"2"}));
}

TEST(simulated_storage, NamesNeedTheirDirectorySynced) {
    simulated_storage storage(512);
    const auto file = make(storage, "/a");
    ASSERT_TRUE(file->write_at(0, filled(512, 2), "test.write").ok());
    ASSERT_TRUE(file->sync("test.sync").ok());
    EXPECT_EQ(seen_in_images(storage, sectors_of("/a")), (std::set<std::string>{"-", "2"}));
    ASSERT_TRUE(storage.sync_directory("/", "test.sync_directory").ok());
    EXPECT_EQ(seen_in_images(storage, sectors_of("/a")), (std::set<std::string>{"2"}));
    ASSERT_TRUE(storage.remove("/a", "test.remove").ok());
    EXPECT_EQ(seen_in_images(storage, sectors_of("/a")), (std::set<std::string>{"-", "2"}));
}

TEST(simulated_storage, AFileInADirectoryThatWasLostIsLost) {
    simulated_storage storage(512);
    ASSERT_TRUE(storage.make_directory("/heap", "test.mkdir").ok());
    make(storage, "/heap/a");
    ASSERT_TRUE(storage.sync_directory("/heap", "test.sync_directory").ok());
    const auto names = [](const storage_image& left) { return left.names->size(); };
    EXPECT_EQ(seen_in_images(storage, names), (std::set<std::size_t>{0, 2}));
    ASSERT_TRUE(storage.sync_directory("/", "test.sync_directory").ok());
    EXPECT_EQ(seen_in_images(storage, names), (std::set<std::size_t>{2}));
}

TEST(simulated_storage, RenameIsAtomic) {
    simulated_storage storage(512);
    make_durable(storage, "/old", 512);
    const auto other = make_durable(storage, "/new", 512);
    ASSERT_TRUE(other->write_at(0, filled(512, 9), "test.write").ok());
    ASSERT_TRUE(other->sync("test.sync").ok());
    ASSERT_TRUE(storage.rename("/new", "/old", "test.rename").ok());
    const auto both = [](const storage_image& left) { return sectors_of("/old")(left) + sectors_of("/new")(left); };
    EXPECT_EQ(seen_in_images(storage, both), (std::set<std::string>{"19", "9-"}));
}

TEST(simulated_storage, RenameOfADirectoryTakesItsFilesAlong) {
    simulated_storage storage(512);
    ASSERT_TRUE(storage.make_directory("/a", "test.mkdir").ok());
    make(storage, "/a/file");
    ASSERT_TRUE(storage.rename("/a", "/b", "test.rename").ok());
    EXPECT_TRUE(storage.exists("/b/file").value());
    EXPECT_FALSE(storage.exists("/a/file").value());
    EXPECT_FALSE(storage.exists("/a").value());
}

TEST(simulated_storage, GrowthIsAnAtomOfItsOwn) {
    simulated_storage storage(512);
    const auto file = make_durable(storage, "/a", 512);
    ASSERT_TRUE(file->write_at(512, filled(512, 2), "test.write").ok());
    EXPECT_EQ(seen_in_images(storage, sectors_of("/a")), (std::set<std::string>{"1", "10", "12"}));
    ASSERT_TRUE(file->sync("test.sync").ok());
    ASSERT_TRUE(file->resize(256, "test.resize").ok());
    EXPECT_EQ(seen_in_images(storage, sectors_of("/a")), (std::set<std::string>{"12", "1"}));
}

TEST(simulated_storage, PunchedBlocksMayComeBack) {
    simulated_storage storage(512);
    const auto file = make_durable(storage, "/a", 3 * 4096);
    ASSERT_TRUE(file->punch_hole(4096, 8192, "test.punch").ok());
    EXPECT_EQ(seen_in_images(storage, sectors_of("/a", 4096)), (std::set<std::string>{"111", "101", "110", "100"}));
}

TEST(simulated_storage, RewritingTheSameBytesIsNoChoice) {
    simulated_storage storage(512);
    const auto file = make_durable(storage, "/a", 4096);
    ASSERT_TRUE(file->write_at(0, filled(4096, 1), "test.write").ok());
    EXPECT_EQ(storage.pending_atoms(), 0U);
    ASSERT_TRUE(file->write_at(0, filled(512, 2), "test.write").ok());
    ASSERT_TRUE(file->write_at(0, filled(512, 1), "test.write").ok());
    EXPECT_EQ(seen_in_images(storage, sectors_of("/a", 4096)), (std::set<std::string>{"1", "2"}));
}

TEST(simulated_storage, ImagesHaveEqualHashesIffTheyAreEqual) {
    simulated_storage storage(512);
    const auto file = make_durable(storage, "/a", 8192);
    const auto before = storage.current().hash();
    ASSERT_TRUE(file->write_at(4096, filled(1, 9), "test.write").ok());
    EXPECT_NE(storage.current().hash(), before);
    ASSERT_TRUE(file->write_at(4096, filled(1, 1), "test.write").ok());
    EXPECT_EQ(storage.current().hash(), before);
    ASSERT_TRUE(file->resize(1 << 20, "test.resize").ok());
    EXPECT_NE(storage.current().hash(), before);
    const auto sparse = storage.current().hash();
    ASSERT_TRUE(file->write_at(65536, filled(4096, 0), "test.write").ok());
    EXPECT_EQ(storage.current().hash(), sparse);
}

TEST(simulated_storage, CopiesContentOfHoles) {
    simulated_storage storage(512);
    const auto source = make(storage, "/a");
    ASSERT_TRUE(source->resize(100000, "test.resize").ok());
    ASSERT_TRUE(source->write_at(50000, filled(10, 3), "test.write").ok());
    const auto target = make(storage, "/b");
    ASSERT_TRUE(storage.copy_content(*source, *target, persist::shared_blocks::allowed, "test.copy").ok());
    EXPECT_EQ(storage.current().bytes_of("/b"), storage.current().bytes_of("/a"));
    EXPECT_LE(target->charged().value(), 8192U);
}

// A toy for the explorer: a record of 1024 bytes in two places, a checked header that names the valid one, and a
// recovery that repairs. State n: a record filled with n.

struct toy_options {
    bool sync_record = true;
    bool sync_header = true;
    bool recovery_syncs = true;
};

constexpr std::size_t record_size = 1024;

struct toy_header {
    std::uint64_t number = 0;
    std::uint64_t checksum = 0;
};

std::vector<std::byte> header_bytes(std::uint64_t number) {
    toy_header header{number, 0};
    header.checksum = base::checksum64(std::as_bytes(std::span{&header.number, 1}));
    std::vector<std::byte> bytes(sizeof header);
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
}

std::string toy_scenario(simulated_storage& storage, crash_explorer<simulated_storage>::timeline& marks,
                         const toy_options& options) {
    auto record = storage.open("/record", access_mode::read_write);
    auto header = storage.open("/header", access_mode::read_write);
    for (std::uint64_t number = 1; number <= 3; ++number) {
        marks.begins(number);
        const auto slot = number % 2 * record_size;
        if (!(*record)->write_at(slot, filled(record_size, static_cast<unsigned>(number)), "toy.record.write").ok()) {
            return "write failed";
        }
        if (options.sync_record && !(*record)->sync("toy.record.sync").ok()) {
            return "sync failed";
        }
        if (!(*header)->write_at(0, header_bytes(number), "toy.header.write").ok()) {
            return "write failed";
        }
        if (options.sync_header && !(*header)->sync("toy.header.sync").ok()) {
            return "sync failed";
        }
        marks.returned(number);
    }
    return {};
}

std::string toy_check(crash_explorer<simulated_storage>::trial& trial) {
    auto& storage = trial.device();
    auto record = storage.open("/record", access_mode::read_write);
    auto header = storage.open("/header", access_mode::read_write);
    toy_header found;
    if (!(*header)->read_at(0, std::as_writable_bytes(std::span{&found, 1})).ok()) {
        return "the header cannot be read";
    }
    if (found.checksum != base::checksum64(std::as_bytes(std::span{&found.number, 1}))) {
        return "the header is torn";
    }
    trial.recovered(found.number);
    std::vector<std::byte> content(record_size);
    if (!(*record)->read_at(found.number % 2 * record_size, content).ok()) {
        return "the record cannot be read";
    }
    if (content != filled(record_size, static_cast<unsigned>(found.number))) {
        return "record " + std::to_string(found.number) + " is torn";
    }
    return trial.expected().allows(found.number) ? std::string{} : "state " + std::to_string(found.number);
}

simulated_storage toy_machine(std::uint64_t atom_size) {
    simulated_storage fresh(atom_size);
    const auto record = make(fresh, "/record");
    const auto header = make(fresh, "/header");
    EXPECT_TRUE(record->resize(2 * record_size, "test.resize").ok());
    EXPECT_TRUE(header->write_at(0, header_bytes(0), "test.write").ok());
    return simulated_storage(fresh.current(), atom_size);
}

explore_report explore_toy(const toy_options& options, std::uint64_t atom_size) {
    simulated_storage machine = toy_machine(atom_size);
    return crash_explorer<simulated_storage>(explore_options{})
        .run(
            machine, [&](auto& storage, auto& marks) { return toy_scenario(storage, marks, options); }, toy_check);
}

TEST(crash_explorer, ACorrectProtocolHasNoViolation) {
    const auto report = explore_toy({}, 512);
    EXPECT_TRUE(report.violations.empty()) << report.violations.front();
    EXPECT_GT(report.trials, 15U);
    EXPECT_GT(report.duplicates, 0U);
}

TEST(crash_explorer, AMissingSyncOfTheRecordIsFound) {
    const auto report = explore_toy({.sync_record = false}, 512);
    ASSERT_FALSE(report.violations.empty());
    EXPECT_NE(report.violations.front().find("is torn"), std::string::npos) << report.violations.front();
    EXPECT_NE(report.violations.front().find("toy.header.write"), std::string::npos) << report.violations.front();
}

TEST(crash_explorer, AMissingSyncOfTheHeaderIsFound) {
    const auto report = explore_toy({.sync_header = false}, 512);
    ASSERT_FALSE(report.violations.empty());
    EXPECT_NE(report.violations.front().find("states allowed: 1 to 1"), std::string::npos) << report.violations.front();
}

TEST(crash_explorer, AHeaderThatCanTearIsFound) {
    const auto report = explore_toy({}, 8);
    ASSERT_FALSE(report.violations.empty());
    EXPECT_NE(report.violations.front().find("the header is torn"), std::string::npos) << report.violations.front();
}

// Recovery rolls a log forward by moving two numbers. The wrong recovery adds a difference, and counts twice when it is
// cut.
std::string counter_check(crash_explorer<simulated_storage>::trial& trial, bool idempotent) {
    auto& storage = trial.device();
    auto log = storage.open("/log", access_mode::read_write);
    auto home = storage.open("/home", access_mode::read_write);
    std::uint64_t target = 0;
    std::uint64_t value = 0;
    const auto read = [](persist::file& from, std::uint64_t& into) {
        return from.read_at(0, std::as_writable_bytes(std::span{&into, 1})).ok();
    };
    const auto write = [](persist::file& to, std::uint64_t number) {
        return to.write_at(0, std::as_bytes(std::span{&number, 1}), "counter.write").ok() &&
               to.sync("counter.sync").ok();
    };
    if (!read(**log, target) || !read(**home, value)) {
        return "cannot read";
    }
    if (target != 0) {
        if (!write(**home, idempotent ? target : value + 5) || !write(**log, 0) || !read(**home, value)) {
            return "cannot write";
        }
    }
    trial.recovered(value);
    return trial.expected().allows(value) ? std::string{} : "value " + std::to_string(value);
}

explore_report explore_counter(bool idempotent, unsigned depth) {
    simulated_storage fresh(8);
    const auto log = make(fresh, "/log");
    const auto home = make(fresh, "/home");
    EXPECT_TRUE(log->resize(8, "test.resize").ok());
    EXPECT_TRUE(home->resize(8, "test.resize").ok());
    simulated_storage ready(fresh.current(), 8);
    explore_options options;
    options.recovery_depth = depth;
    return crash_explorer<simulated_storage>(options).run(
        ready,
        [](auto& storage, auto& marks) {
            marks.begins(5);
            auto opened = storage.open("/log", access_mode::read_write);
            const std::uint64_t target = 5;
            const bool done = (*opened)->write_at(0, std::as_bytes(std::span{&target, 1}), "counter.log.write").ok() &&
                              (*opened)->sync("counter.log.sync").ok();
            marks.returned(5);
            return done ? std::string{} : "failed";
        },
        [&](auto& trial) { return counter_check(trial, idempotent); });
}

TEST(crash_explorer, ARecoveryThatIsNotIdempotentIsFoundByCuttingItOff) {
    EXPECT_TRUE(explore_counter(false, 0).violations.empty());
    EXPECT_FALSE(explore_counter(false, 1).violations.empty());
    for (const unsigned depth : {0U, 1U, 2U}) {
        const auto report = explore_counter(true, depth);
        EXPECT_TRUE(report.violations.empty()) << report.violations.front();
    }
    EXPECT_GT(explore_counter(true, 2).images(), explore_counter(true, 0).images());
}

TEST(crash_explorer, AScenarioThatFailsIsAViolation) {
    simulated_storage machine(512);
    const auto report =
        crash_explorer<simulated_storage>(explore_options{})
            .run(
                machine, [](auto&, auto&) { return std::string{"no"}; }, [](auto&) { return std::string{}; });
    ASSERT_EQ(report.violations.size(), 1U);
    EXPECT_EQ(report.violations.front(), "the scenario itself: no");
}

#if HOLDFAST_MUTANTS
TEST(mutants, EverySyncOfTheToyIsNeeded) {
    persist::forget_sites();
    EXPECT_TRUE(explore_toy({}, 512).violations.empty());
    int syncs = 0;
    for (const auto& one : persist::seen_sites()) {
        if (one.name.starts_with("toy.")) {
            const persist::mutant_selection mutant{one.name};
            EXPECT_FALSE(explore_toy({}, 512).violations.empty()) << one.name;
            ++syncs;
        }
    }
    EXPECT_EQ(syncs, 4);
}
#endif

TEST(crash_explorer, PrintsHowManyImagesASecondItSees) {
    simulated_storage machine(512);
    const auto file = make_durable(machine, "/a", 4 * 4096);
    const auto begin = std::chrono::steady_clock::now();
    std::uint64_t images = 0;
    for (unsigned round = 2; round < 12; ++round) {
        ASSERT_TRUE(file->write_at(round * 512, filled(6144, round), "test.write").ok());
        machine.for_each_crash_image({}, round, [&](const storage_image& left) {
            simulated_storage restarted(left, 512);
            auto opened = restarted.open("/a", access_mode::read_write);
            EXPECT_TRUE((*opened)->write_at(0, filled(512, 99), "test.write").ok());
            images += left.hash() != 0 ? 1U : 0U;
            return true;
        });
        ASSERT_TRUE(file->sync("test.sync").ok());
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::printf("%.0f images a second, %llu in all\n", static_cast<double>(images) / seconds.count(),
                static_cast<unsigned long long>(images));
    EXPECT_EQ(images, 10 * 4096U);
}

}  // namespace
}  // namespace holdfast::simulator
