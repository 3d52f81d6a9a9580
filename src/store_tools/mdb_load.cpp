// mdb_load: fills an environment with what mdb_dump wrote, or with lines of text.
#include <cstdio>
#include <memory>

#include "store_tools/dump_format.hpp"
#include "store_tools/tool.hpp"

namespace holdfast_store_tools {
namespace {

constexpr unsigned items_of_a_transaction = 1000;

class loader {
public:
    loader(const environment& opened, bool keep_existing)
        : opened_(opened), flags_(keep_existing ? unsigned{MDB_NOOVERWRITE | MDB_NODUPDATA} : 0U) {}

    void load(dump_reader& from, const std::optional<std::string>& name, unsigned database_flags) {
        begin();
        MDB_dbi database = 0;
        expect_success("mdb_open", mdb_dbi_open(transaction_->get(), name ? name->c_str() : nullptr,
                                                database_flags | MDB_CREATE, &database));
        // Without duplicates LMDB gives MDB_NODUPDATA no meaning.
        const unsigned flags = (database_flags & MDB_DUPSORT) != 0 ? flags_ : flags_ & ~unsigned{MDB_NODUPDATA};
        std::string key;
        std::string data;
        try {
            while (from.read_item(key, data)) {
                put(database, key, data, flags);
            }
        } catch (const format_error&) {
            transaction_->commit();  // what was read until then stays
            throw;
        }
        transaction_->commit();
        transaction_.reset();
        if (name) {
            mdb_dbi_close(opened_.get(), database);
        }
    }

private:
    void begin() {
        transaction_.reset();
        transaction_ = std::make_unique<transaction>(opened_);
        items_ = 0;
    }

    void put(MDB_dbi database, const std::string& key, const std::string& data, unsigned flags) {
        MDB_val k = value_of(key);
        MDB_val d = value_of(data);
        const int code = mdb_put(transaction_->get(), database, &k, &d, flags);
        if (code != MDB_KEYEXIST || flags == 0) {
            expect_success("mdb_put", code);
        }
        if (++items_ == items_of_a_transaction) {
            transaction_->commit();
            begin();
        }
    }

    const environment& opened_;
    unsigned flags_;
    std::unique_ptr<transaction> transaction_;
    unsigned items_ = 0;
};

void run(const tool_arguments& given) {
    if (given.paths.size() != 1) {
        throw usage_error("");
    }
    if (const auto file = given.argument('f'); file && std::freopen(file->c_str(), "r", stdin) == nullptr) {
        throw std::runtime_error(*file + ": reopen: No such file or directory");
    }
    dump_reader from(stdin, given.count('T') != 0);
    auto header = from.read_header();
    if (!header) {
        return;
    }
    environment_limits limits;
    limits.map_size = header->map_size;
    limits.readers = header->readers;
    limits.long_keys = true;  // what a store holds can be loaded
    const environment opened(given.paths.front(), given.count('n') != 0 ? MDB_NOSUBDIR : 0U, limits);
    loader to(opened, given.count('N') != 0);
    for (; header; header = from.read_header()) {
        to.load(from, header->database ? header->database : given.argument('s'), header->flags);
    }
}

}  // namespace
}  // namespace holdfast_store_tools

int main(int argc, char** argv) {
    return holdfast_store_tools::run_tool(argc, argv, "Vf:nNs:T", "[-V] [-f input] [-n] [-s name] [-N] [-T] dbpath",
                                          holdfast_store_tools::run);
}
