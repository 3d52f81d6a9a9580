// Lanes that an adversary wrote, checksums and seals repaired. Recovery refuses them or gives a heap; a second one,
// also after one that was cut off, gives the same. If check() names no problem, all operations succeed, and a further
// crash loses nothing; if it does, blocks handed out lie in the heap and are disjoint. Unedited lanes give exactly what
// the calls did, with every mix of lines that a crash may leave.
//
// Edits: fuzz_input.hpp, with places of their own (lanes_fuzz.hpp). Control bits: 0 checksums, 1 sequences that fit the
// slot, or the lanes of a log, 2 seals of the head, 3 times that count; 8 and 15 order of records; 9 to 13 which lines
// are as at the checkpoint (0: none); 14 the recovery is cut off.
#include "heap/fuzz/lanes_fuzz.hpp"

#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "base/sparse_table.hpp"
#include "heap/atomic/atomic_operations_of.hpp"
#include "lane/record_log.hpp"
#include "lane/replay.hpp"

namespace {

using namespace holdfast;                    // NOLINT(google-build-using-namespace): a program of one file
using namespace holdfast::heap::lanes_fuzz;  // NOLINT(google-build-using-namespace)
using segment::finding;
using segment::must;

constexpr segment::geometry shape{base::mebibyte};
constexpr std::uint64_t user_bytes = base::mebibyte;
constexpr std::uint64_t log_bytes = log::files_in_memory::bytes_for(log_files, log::least_file_size);
constexpr std::array<std::uint64_t, 8> sizes{64, 64, 500, 3000, 14336, 14336, 20000, 40000};

/// The domain `disk` in memory: what is stored is durable, and records go to a log.
class disk_in_memory : public persist::emulated_domain {
public:
    static constexpr bool models_disks = true;
};

class machine final : public segment::space_growth, public segment::lane_area {
public:
    machine()
        : user_(must(base::sparse_memory::map(user_bytes, "user"))),
          metadata_(must(base::sparse_memory::map(shape.metadata_size(), "metadata"))),
          lanes_(must(base::sparse_memory::map(lane::lanes_file_size(most_lanes, slots), "lanes"))),
          log_(must(base::sparse_memory::map(log_bytes, "log"))),
          files_(at(log_), log_files, log::least_file_size),
          view_(at(user_), at(metadata_), shape, user_bytes) {}

    [[nodiscard]] const segment::space_view& view() const noexcept { return view_; }
    [[nodiscard]] base::pages frontier() const noexcept override { return base::pages_for(user_bytes); }
    base::result<base::pages> grow(base::pages /*wanted*/) override { return no_space(); }
    [[nodiscard]] bool gives_back_at_once() const noexcept override { return false; }
    base::result<void> give_back(base::pages /*start*/, base::pages /*length*/) override { return {}; }
    base::result<void> reserve_again(base::pages /*start*/, base::pages /*length*/) override { return {}; }
    base::result<void> shrink(base::pages /*to*/) override { return {}; }
    [[nodiscard]] std::byte* lanes() const noexcept override { return at(lanes_); }
    [[nodiscard]] std::uint64_t lanes_size() const noexcept override { return size_; }
    base::result<void> grow_lanes(std::uint64_t bytes) override {
        if (bytes > lane::lanes_file_size(most_lanes, slots)) {
            return no_space();
        }
        size_ = std::max(size_, bytes);
        return {};
    }
    [[nodiscard]] segment::log_home log() const override { return {&files_, files_.place()}; }
    [[nodiscard]] std::uint64_t& word(std::uint64_t offset) const noexcept {
        return *reinterpret_cast<std::uint64_t*>(view_.address({offset}));
    }

    void take(image& to) const {
        to.user.assign(at(user_), at(user_) + user_bytes);
        to.metadata.assign(at(metadata_), at(metadata_) + shape.metadata_size());
        to.lanes.assign(lanes(), lanes() + size_);
        to.log.assign(at(log_), at(log_) + log_bytes);
    }
    void put(const image& from) noexcept {
        std::memcpy(at(user_), from.user.data(), user_bytes);
        std::memcpy(at(metadata_), from.metadata.data(), shape.metadata_size());
        std::memset(lanes(), 0, lane::lanes_file_size(most_lanes, slots));
        std::memcpy(lanes(), from.lanes.data(), from.lanes.size());
        std::memcpy(at(log_), from.log.data(), log_bytes);
        size_ = from.lanes.size();
    }
    void put_head(const image& from) noexcept {
        std::memcpy(lanes(), from.lanes.data(), std::min<std::size_t>(from.lanes.size(), lane::lanes_at));
    }
    [[nodiscard]] bool holds(const image& other) const noexcept {
        return std::memcmp(at(user_), other.user.data(), user_bytes) == 0 &&
               std::memcmp(at(metadata_), other.metadata.data(), shape.metadata_size()) == 0;
    }

private:
    static std::byte* at(const base::sparse_memory& memory) noexcept {
        return static_cast<std::byte*>(memory.address());
    }
    static base::failure no_space() {
        base::failure what;
        what.code = base::failure_code::no_space;
        what.field = "space of the fuzzer";
        return what;
    }

    base::sparse_memory user_;
    base::sparse_memory metadata_;
    base::sparse_memory lanes_;
    base::sparse_memory log_;
    mutable log::files_in_memory files_;
    std::uint64_t size_ = 0;
    segment::space_view view_;
};

/// Without lanes, for inspection, or in durability `atomic`.
template <class Domain>
class session {
public:
    using operations = heap::atomic_operations_of<Domain>;
    using block_map = std::map<std::uint64_t, std::uint64_t>;  ///< offset -> bytes

    explicit session(machine& on) : on_(on), extents_(on.view(), on), blocks_(on.view(), extents_) {}
    session(const session&) = delete;
    session& operator=(const session&) = delete;
    ~session() {
        blocks_.close();
        operations_.reset();
    }

    [[nodiscard]] slab::block_allocator& blocks() noexcept { return blocks_; }
    [[nodiscard]] extent::extent_allocator& extents() noexcept { return extents_; }
    [[nodiscard]] operations& heap() noexcept { return *operations_; }
    void begin(std::uint64_t incarnation, std::uint64_t time, std::optional<std::uint64_t> count) {
        lane::lane_options options;
        options.heap_key = key;
        options.incarnation = incarnation;
        options.slots = slots;
        options.order = order;
        options.checkpoint_time = time;
        options.lane_count = count;
        options.log_chain = incarnation;
        options.clock = lane::record_clock::source::memory;
        operations_ = std::make_unique<operations>(Domain{}, on_.view(), on_, blocks_, options);
        must(operations_->open());
    }
    [[nodiscard]] block_map all_blocks() const {
        block_map all;
        blocks_.inspect().for_each_block([&all](base::heap_offset offset, std::uint64_t bytes, std::uint32_t /*type*/) {
            all.emplace(offset.value, bytes);
        });
        return all;
    }

    static constexpr lane::record_order order = Domain::kind == persist::domain_kind::page_cache
                                                    ? lane::record_order::in_flight
                                                : lane::may_log<Domain> ? lane::record_order::logged
                                                                        : lane::record_order::clock;

private:
    machine& on_;
    extent::extent_allocator extents_;
    slab::block_allocator blocks_;
    std::unique_ptr<operations> operations_;
};

using block_map = session<persist::emulated_domain>::block_map;

struct crashed_heap {
    image before;  ///< at the last checkpoint
    image after;   ///< with all stores
    block_map blocks;
    std::map<std::uint64_t, std::uint64_t> targets;  ///< by root
};

constexpr std::uint64_t first_used_root = 64;  ///< from here on the recovered heap's program uses roots

[[nodiscard]] std::uint64_t target_of(const machine& on, std::uint64_t root) {
    const std::uint64_t word = on.word(root * 8);
    return segment::is_null_pointer(word) ? 0 : segment::decode_pointer(root * 8, word);
}

/// Slabs and pages come and go, in two lanes.
template <class Domain>
void work(session<Domain>& on, machine& memory, std::uint64_t first_root) {
    const auto root = [&](std::uint64_t i) -> std::uint64_t& { return memory.word((first_root + i) * 8); };
    for (std::uint64_t i = 0; i < sizes.size(); ++i) {
        static_cast<void>(on.heap().allocate_to(root(i), {sizes[i], 8, false}));
    }
    static_cast<void>(on.heap().free_from(root(3)));
    static_cast<void>(on.heap().reallocate_to(root(1), {3000, 8, false}));
    static_cast<void>(on.heap().free_from(root(6)));
}

template <class Domain>
crashed_heap make_heap() {
    machine memory;
    crashed_heap made;
    session<Domain> on(memory);
    must(on.blocks().format());
    on.begin(1, 0, {});
    work(on, memory, 0);
    std::thread([&] { work(on, memory, 8); }).join();
    on.heap().checkpoint();
    memory.take(made.before);
    for (std::uint64_t i = 0; i < 6; ++i) {
        static_cast<void>(on.heap().free_from(memory.word(i * 8)));
    }
    work(on, memory, 16);
    std::thread([&] { work(on, memory, 24); }).join();
    // A last call got no further than its fence.
    auto& cache = *on.blocks().this_cache();
    slab::held_block held;
    if (!on.blocks().hold(&cache, 64, 8, held)) {
        finding("no block for the last call");
    }
    lane::record_on_media record{
        0, 0, 0, lane::encode_destination(32 * 8, 1), held.offset, lane::encode(held.block), lane::nowhere, 0};
    auto& lanes = on.heap().lane_set();
    lanes.prepare(*cache.own_lane, 1);
    lanes.announce(*cache.own_lane);
    lanes.append(*cache.own_lane, record, {});
    if (!lanes.fence(*cache.own_lane)) {
        finding("the last record is not durable");
    }
    memory.take(made.after);
    if (session<Domain>::order == lane::record_order::logged) {
        const auto last = must(lane::read_checkpoint(made.after.lanes, key));
        spread_log(made.after, must(lane::read_log({memory.log(), key, 1}, last, lane::log_access::look)));
        const lane::lanes_head_on_media head = lane::new_head({last.time, log_begin}, 0, key);
        std::memcpy(made.after.lanes.data(), &head, sizeof head);
    }
    if (on.heap().lanes().statistics().checkpoints > 1) {
        finding("a checkpoint in the midst of what was to be pending");
    }
    lanes.effects().carry_out(record);
    for (std::uint64_t i = 0; i < 33; ++i) {
        made.targets[i] = target_of(memory, i);
    }
    lanes.complete(*cache.own_lane);
    on.heap().checkpoint();
    made.blocks = on.all_blocks();
    return made;
}

void expect_telling(const base::failure& what) {
    base::failure named = what;
    named.path = "lanes";  // as a heap would
    segment::expect_telling(named);
    if (what.code != base::failure_code::corrupt && what.code != base::failure_code::missing) {
        finding("an adversary's lanes are not corrupt, but: " + what.message());
    }
}

class examination {
public:
    examination(machine& on, unsigned control, bool untouched) : on_(on), control_(control), untouched_(untouched) {}

    template <class Domain>
    void run(const crashed_heap& original) {
        if (!recover<Domain>(1)) {
            return;
        }
        std::uint64_t time = 0;
        std::uint64_t count = 0;
        block_map blocks;
        bool sound = false;
        {
            session<Domain> seen(on_);
            if (const auto opened = seen.blocks().open(on_.frontier()); !opened) {
                return refused("a recovered heap does not open: ", opened.error());
            }
            std::vector<std::string> problems;
            seen.blocks().inspect().check(problems);
            sound = problems.empty();
            blocks = seen.all_blocks();
            if (untouched_ && (!sound || blocks != original.blocks)) {
                finding("a crash gave another heap: " + (sound ? std::string("other blocks") : problems.front()));
            }
            if (untouched_) {
                expect_targets(original.targets, "a crash gave another destination");
            }
            time = must(lane::read_checkpoint(file(), key)).time;
            count = must(lane::read_lane_count(file(), on_.lanes_size(), slots, session<Domain>::order, key));
        }
        if (!is_near_its_end(time)) {
            use<Domain>(time, count, blocks, sound);
        }
    }

private:
    [[nodiscard]] std::span<const std::byte> file() const { return {on_.lanes(), on_.lanes_size()}; }
    void refused(const char* what, const base::failure& why) const {
        if (untouched_) {
            finding(what + why.message());
        }
        expect_telling(why);
    }
    void expect_targets(const std::map<std::uint64_t, std::uint64_t>& targets, const char* what) const {
        for (const auto& [root, target] : targets) {
            if (target_of(on_, root) != target) {
                finding(what);
            }
        }
    }
    /// Whether use would reach the limit of numbers (LANE-27), as no real heap does.
    [[nodiscard]] bool is_near_its_end(std::uint64_t time) const {
        bool found = time > lane::largest_number / 2;
        constexpr std::uint64_t near = lane::largest_sequence / 2;
        for (std::uint64_t at = lane::lanes_at; at < on_.lanes_size(); at += lane::lane_size(slots)) {
            found = found || reinterpret_cast<const lane::lane_header_on_media*>(on_.lanes() + at)->completed > near;
        }
        return found;
    }
    /// The source refers to the plan's records.
    struct found_plan {
        lane::replay_source source;
        std::vector<lane::record_on_media> log;
        lane::replay_plan plan;
    };
    template <class Domain>
    [[nodiscard]] base::result<std::unique_ptr<found_plan>> plan(std::uint64_t incarnation) const {
        auto found = std::make_unique<found_plan>();
        found->source = {on_.view(), {on_.lanes(), on_.lanes_size()},
                         slots,      session<Domain>::order,
                         key,        incarnation,
                         user_bytes, false,
                         {}};
        if (session<Domain>::order == lane::record_order::logged) {
            HF_TRY_ASSIGN(const auto last, lane::read_checkpoint(file(), key));
            HF_TRY_ASSIGN(found->log, lane::read_log({on_.log(), key, incarnation}, last, lane::log_access::recover));
            found->source.log = found->log;
        }
        HF_TRY_ASSIGN(found->plan, lane::make_replay(found->source));
        return found;
    }

    /// False if the lanes are refused.
    template <class Domain>
    bool recover(std::uint64_t incarnation) {
        static image crashed;  // static: allocating these takes most of the time
        static image recovered;
        on_.take(crashed);
        Domain domain;
        const auto apply = [&](const found_plan& found) { lane::apply(found.plan, found.source, domain); };
        auto first = plan<Domain>(incarnation);
        if (!first) {
            refused("what a crash left is refused: ", first.error());
            if (!on_.holds(crashed)) {
                finding("a replay that was refused changed the heap");
            }
            return false;
        }
        apply(**first);
        on_.take(recovered);
        if ((control_ & cut_off) != 0) {
            on_.put(crashed);
            auto& writes = (*first)->plan.writes;
            writes.resize(writes.size() / 2);
            (*first)->plan.newest_time = 0;
            apply(**first);
            on_.put_head(crashed);
            apply(*must(plan<Domain>(incarnation)));
            if (!on_.holds(recovered)) {
                finding("a replay after one that was cut off gives another heap");
            }
        }
        const auto again = must(plan<Domain>(incarnation));
        if (again->plan.report.replayed != 0 ||
            (lane::is_by_clock(session<Domain>::order) && again->plan.report.pending != 0)) {
            finding("a second replay finds something to do");
        }
        const extent::page_entries entries(on_.view());
        if (const auto rebuilt = entries.rebuild(on_.frontier()); !rebuilt) {
            refused("page entries cannot be rebuilt: ", rebuilt.error());
            return false;
        }
        on_.take(recovered);
        apply(*must(plan<Domain>(incarnation)));
        must(entries.rebuild(on_.frontier()));
        if (!on_.holds(recovered)) {
            finding("a second recovery changes the heap");
        }
        return true;
    }

    template <class Domain>
    void use(std::uint64_t time, std::uint64_t count, block_map blocks, bool sound) {
        std::map<std::uint64_t, std::uint64_t> targets;
        {
            session<Domain> next(on_);
            must(next.blocks().open(on_.frontier()));
            next.begin(2, time, count);
            block_map fresh;
            for (std::uint64_t i = 0; i < 3 * sizes.size(); ++i) {
                const std::uint64_t root = first_used_root + i;
                void* const block = next.heap().allocate_to(on_.word(root * 8), {sizes[i % sizes.size()], 8, false});
                if (block == nullptr) {
                    const base::failure& why = slab::block_allocator::last_failure();
                    expect(!sound || why.code == base::failure_code::no_space || why.code == base::failure_code::limit,
                           why.message());
                    continue;
                }
                note(fresh, sound ? blocks : fresh, on_.view().offset(block).value, sizes[i % sizes.size()], next);
                targets[root] = on_.view().offset(block).value;
            }
            for (auto& [root, target] : targets) {
                if (root % 2 == 0) {
                    const auto freed = next.heap().free_from(on_.word(root * 8));
                    expect(!sound || freed == heap::operation_result::done, "a block cannot be freed");
                    blocks.erase(target);
                    target = 0;
                }
            }
            if (!blocks.empty() && sound) {
                const std::uint64_t old = blocks.begin()->first;
                expect(next.heap().on_blocks().deallocate(on_.view().address({old})), "an old block cannot be freed");
                blocks.erase(old);
            }
        }
        if (!sound) {
            return;
        }
        untouched_ = true;  // a sound heap wrote what is on media now
        if (!recover<Domain>(2)) {
            return;
        }
        session<Domain> last(on_);
        must(last.blocks().open(on_.frontier()));
        std::vector<std::string> problems;
        last.blocks().inspect().check(problems);
        expect(problems.empty(), problems.empty() ? "" : problems.front());
        expect(last.all_blocks() == blocks, "a crash of it lost, or left, a block");
        expect_targets(targets, "a crash of a sound heap gave another destination");
    }

    template <class Domain>
    void note(block_map& fresh, block_map& all, std::uint64_t offset, std::uint64_t bytes, session<Domain>& on) {
        if (offset < base::granule_size || offset % 8 != 0 || offset >= user_bytes || bytes > user_bytes - offset) {
            finding("a block that is misplaced");
        }
        const auto next = all.lower_bound(offset);
        if ((next != all.end() && next->first < offset + bytes) ||
            (next != all.begin() && std::prev(next)->first + std::prev(next)->second > offset)) {
            finding("a block that overlaps another");
        }
        const auto usable = on.blocks().inspect().usable_size(on_.view().address({offset}));
        if (!usable) {
            finding("a block that was handed out is none: " + usable.error().message());
        }
        fresh[offset] = all[offset] = usable.value();
    }
    static void expect(bool right, const std::string& what) {
        if (!right) {
            finding("in a heap that check() found sound: " + what);
        }
    }

    machine& on_;
    unsigned control_;
    bool untouched_;
};

template <class Domain>
void examine(const fuzz_input& input) {
    static const crashed_heap original = make_heap<Domain>();
    static machine memory;
    static image media;
    constexpr bool is_log = session<Domain>::order == lane::record_order::logged;
    media = original.after;
    if (lane::is_by_clock(session<Domain>::order)) {
        mix_lines(media, original.before, input.control >> line_mix_shift & line_mix_mask);
    }
    editor edits(media, is_log);
    for (const auto& record : input.records) {
        edits.apply(record);
    }
    edits.repair(input.control);
    const bool untouched = media.lanes == original.after.lanes;
    if (is_log) {
        gather_log(media);
    }
    memory.put(media);
    examination(memory, input.control, untouched).run<Domain>(original);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const fuzz_input input({data, size});
    if ((input.control & in_flight) != 0) {
        examine<persist::page_cache_domain>(input);
    } else if ((input.control & logged) != 0) {
        examine<disk_in_memory>(input);
    } else {
        examine<persist::emulated_domain>(input);
    }
    return 0;
}
