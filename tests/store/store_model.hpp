// What a store must do, as an ordered multimap with versions: for each command the outcome that LMDB documents, and no
// more. Where the documentation leaves a cursor's place open, the model calls the cursor lost, and uses it only for
// operations that do not depend on the place.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "store/random_program.hpp"

namespace holdfast::test {

class store_model {
public:
    static constexpr unsigned readers = 2;
    static constexpr unsigned deepest = 4;  ///< levels of write transactions

    /// Uses the databases whose bits are set. `nesting`: write transactions nest. `strict`: also what liblmdb 0.9.24 is
    /// known to do wrong must be right.
    store_model(unsigned databases, bool nesting, bool strict);

    /// The command that creates the databases; the first of a program.
    [[nodiscard]] command creation() const;
    /// The command that a step means in this state; action::nothing where it means none.
    [[nodiscard]] command resolve(const step& taken) const;
    [[nodiscard]] outcome perform(const command& called);
    /// The steps that end a program: all transactions end, then every database is read. Empty when all is done.
    [[nodiscard]] command ending();

private:
    struct order {
        const database_kind* kind;
        bool is_data;
        bool operator()(const std::string& a, const std::string& b) const {
            return compare_in(*kind, is_data, a, b) < 0;
        }
    };
    using duplicates = std::set<std::string, order>;
    using content = std::map<std::string, duplicates, order>;
    using version = std::array<std::shared_ptr<content>, kinds_of_databases>;  ///< null: does not exist

    enum class place : std::uint8_t { unset, on, deleted, ended, lost, dead };
    struct cursor {
        unsigned database = 0;
        unsigned reader = 0;  ///< 0: of a write transaction
        std::size_t level = 0;
        place where = place::unset;
        bool whole_key_deleted = false;
        bool saw_end = false;  ///< since it was at the first item
        std::string key;
        std::string data;
    };
    struct level {
        version now;
        std::map<unsigned, cursor> cursors_before;  ///< what an abort restores
    };
    enum class reading : std::uint8_t { none, live, reset };
    struct reader_state {
        reading state = reading::none;
        version seen;
        unsigned handles = 0;
    };

    using const_item = std::pair<content::const_iterator, duplicates::const_iterator>;

    // store_model.cpp: commands that steps mean
    [[nodiscard]] command resolve_transaction(const step& taken) const;
    [[nodiscard]] command resolve_reader(const step& taken) const;
    [[nodiscard]] command resolve_write(const step& taken) const;
    [[nodiscard]] command resolve_handle(const step& taken) const;
    [[nodiscard]] command resolve_read(const step& taken) const;
    [[nodiscard]] command resolve_cursor(const step& taken) const;
    [[nodiscard]] command resolve_cursor_get(const step& taken, command made) const;
    [[nodiscard]] command resolve_cursor_put(const step& taken, command made) const;
    void draw_item(const step& taken, command& made) const;
    void draw_put_flags(const step& taken, command& made) const;
    [[nodiscard]] const content* seen_by(unsigned reader, unsigned database) const;
    [[nodiscard]] unsigned handles_of(unsigned reader) const;
    [[nodiscard]] bool idle() const;
    [[nodiscard]] std::string existing() const;

    // store_model_perform.cpp: what they do
    [[nodiscard]] outcome perform_transaction(const command& called);
    [[nodiscard]] outcome perform_reader(const command& called);
    [[nodiscard]] outcome perform_handle(const command& called);
    [[nodiscard]] outcome perform_cursor_handle(const command& called);
    [[nodiscard]] outcome put(const command& called);
    [[nodiscard]] outcome del(const command& called);
    [[nodiscard]] outcome read(const command& called) const;
    [[nodiscard]] content& writable(unsigned database);
    [[nodiscard]] outcome put_multiple(const command& called);
    void end_level(bool committed);
    void forget_cursors_of(unsigned reader);
    /// Other cursors of a database that has changed at a key: those whose place depends on it are lost. liblmdb 0.9.24
    /// miscounts or misplaces cursors on a key whose duplicates are changed in another way: those too, unless strict.
    void disturb(unsigned database, const std::string& changed, unsigned but);

    // store_model_cursors.cpp
    [[nodiscard]] outcome cursor_get(const command& called);
    [[nodiscard]] outcome cursor_relative(cursor& moved, const content& all, unsigned op);
    [[nodiscard]] outcome cursor_put(const command& called);
    [[nodiscard]] outcome cursor_del(const command& called);
    static outcome stand_on(cursor& moved, const const_item& item);
    static bool find_next(const content& all, const cursor& from, unsigned op, const_item& found);
    static bool find_previous(const content& all, const cursor& from, unsigned op, const_item& found);

    unsigned databases_;
    bool nesting_;
    bool strict_;
    version committed_;
    std::vector<level> levels_;
    std::array<reader_state, readers + 1> readers_;  ///< [0] is not used
    std::map<unsigned, cursor> cursors_;
    unsigned next_cursor_ = 1;
    unsigned handles_ = 0;          ///< open, as bits
    unsigned handles_pending_ = 0;  ///< opened by the present write transaction
    bool ending_ = false;
    unsigned ended_databases_ = 0;  ///< read by ending()
};

/// "N items, checksum": of items added in their order, forwards.
class item_sum {
public:
    void add(std::string_view key, std::string_view data);
    [[nodiscard]] std::string text() const;

private:
    std::uint64_t count_ = 0;
    std::uint64_t sum_ = 0;
};

}  // namespace holdfast::test
