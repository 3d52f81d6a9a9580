/* The log of commits (docs/decisions/0036-one-log.md), small enough to search every state: up to two writers by turns
 * and a reader, each with private pages over one home; a log in a ring of slots, one record each; a superblock that
 * says where the log begins. Any process may die, and the power may fail, at every step.
 *
 * tests/model/promela.py runs it: each world is a set of the bounds below, each mistake a value of MISTAKE that spin
 * must refute. pan takes both from its environment, so that it is compiled once. One step of the protocol is one
 * `atomic`, and `check` asserts the invariants behind each. Where a step chooses among pages that do not allow it, the
 * state stays.
 */

/* Bounds, and what may happen. */
hidden byte PAGES = 2; /* at most 3; the first USED of them hold data at first */
hidden byte USED = 1;
hidden byte SLOTS = 3; /* of the log; at most 3 */
hidden byte RECORDS = 3; /* the longest history; at most 4 */
hidden byte APPENDS = 3; /* of all histories */
hidden byte WRITERS = 1; /* at most 2 */
hidden byte READINGS = 0; /* how often the reader opens */
hidden byte POWER_LOSSES = 1; /* with DEATHS at most 3: an epoch has 2 bits */
hidden byte DEATHS = 0; /* of writers */
hidden byte FAILED_SYNCS = 0;
hidden byte ABORTS = 0;
hidden byte HOLES = 0;
hidden byte FREES = 0; /* commits that free a page or use a free one */
hidden byte DIRECT = 0; /* fresh pages may go home before their record */
hidden byte DROPS = 0; /* processes drop private pages that home has */
hidden byte TORN_DEATHS = 0; /* a writer may die within an append */

/* What is done wrong. */
#define home_before_record 1
#define home_beyond_reader 2
#define reuse_before_checkpoint 3
#define reuse_under_reader 4
#define begin_before_home_is_synced 5
#define checkpoint_leaves_out_a_page 6
#define base_too_new 7
#define abort_to_home 8
#define epoch_left_out 9
#define chain_left_out 10
#define tail_not_voided 11
#define no_revocation 12
#define drop_loses_store 13
#define direct_beside_reader 14
#define direct_not_synced 15
#define hole_under_reader 16
#define free_not_durable 17
#define readers_see_written 18
#define written_taken_for_durable 19
#define registered_too_late 20
#define failed_sync_believed 21
#define tail_not_written_again 22
#define pages_not_written_again 23
hidden byte MISTAKE = 0;
#define IS(mistake) (MISTAKE == mistake)

/* LOG-n. promela.py reads the number where pan tells of the assertion. */
#define invariant(n, claim) assert((claim) || n == 0)

#define SECTORS 2
#define MOST_PAGES 3
#define MOST_PLACES (MOST_PAGES * SECTORS)
#define MOST_SLOTS 3
#define PLACES (PAGES * SECTORS)
#define PROCESSES 3
#define READER 2 /* the process that never takes the turn */
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define BIT(of_) (1 << (of_))

/* A record as a number of 5 bits. Of a range it has the sector that the program changed, and whether the commit has
 * found the change and logged it. */
#define WHOLE(page) (1 + (page))  /* a page that was free */
#define HOMED(page) (4 + (page))  /* a page that was free, and is at home since this record */
#define FREED(page) (7 + (page))
#define RANGE(page, sector, found) (10 + 4 * (page) + 2 * (sector) + (found))
#define is_range(r) ((r) >= 10)
#define is_freed(r) ((r) >= 7 && (r) < 10)
#define is_homed(r) ((r) >= 4 && (r) < 7)
#define is_whole(r) ((r) >= 1 && (r) < 4)
#define page_of(r) (is_range(r) -> ((r) - 10) / 4 : ((r) - 1) % 3)
#define sector_of(r) (((r) - 10) / 2 % 2)
#define changed(r, sector) (!is_range(r) || sector_of(r) == (sector))
#define logged(r, sector) (is_whole(r) || (is_range(r) && sector_of(r) == (sector) && ((r) - 10) % 2 == 1))

/* What the log has of a record: 7 bits (epoch and number) of it and of each record before it, so that two have the
 * same identity only where no reader of the log can tell them apart. A sector that a record changed has the record's
 * sequence as its content. */
#define TORN (1 << 28)
#define DIGIT 7
#define LOGGED_EPOCH (IS(epoch_left_out) -> 0 : epoch)
#define follower(before, r) ((before) << DIGIT | LOGGED_EPOCH << 5 | (r))
#define sequence_of(id) ((id) >> 21 != 0 -> 4 : ((id) >> 14 != 0 -> 3 : ((id) >> 7 != 0 -> 2 : 1)))
#define recorded(sequence) (head >> (DIGIT * (last - (sequence)))) /* the identity in this history */
#define without_epoch(id) ((id) & ~(3 << 5))

/* Media: what processes see, and what may be there after a loss of power. */
#define HOLE 7 /* content of a sector that was punched out */
#define CHOICES 8
byte home[MOST_PLACES];
byte possible[MOST_PLACES]; /* bits of contents */
int slot[MOST_SLOTS];
int choice[MOST_SLOTS * CHOICES]; /* ascending */
byte choices[MOST_SLOTS];
byte begin;
byte possible_begins; /* bits */
byte lost_sectors;    /* bits: the kernel takes them for written */
byte lost_slots;
bit lost_begin;

/* What the processes share. */
int head;       /* the identity of the last record */
byte hist[5];   /* the records by sequence */
byte last;      /* appended */
byte published; /* taken for durable by all */
byte seen;      /* by the reader */
byte epoch;
byte home_version[MOST_PAGES];
byte writing; /* page + 1 that goes home */
byte writing_sector;
byte writing_version;
byte checkpoint; /* 0: none; 1: home is synced; 2: the superblock is written */
byte checkpoint_version;
byte turn; /* process + 1 */
byte doing;
#define STORED 1
#define WRITES_HOME 2
byte page;
byte sector;
byte stale_base; /* 1 + place; base_too_new alone */
bit poisoned;
byte cold; /* 1: all have closed; 2: the tail is written again */
byte off;  /* not 0: the power has failed, and this place + 1 is the next whose content is chosen */

/* Each process's. */
#define CLOSED 0
#define REGISTERED 1
#define CHOSEN 2
#define UNREGISTERED 3
#define OPEN 4
byte at[PROCESSES];
byte version[PROCESSES];
byte first[PROCESSES]; /* where the log began when the version was chosen */
byte private[PROCESSES]; /* bits of pages */
byte copy[PROCESSES * MOST_PLACES];

/* How often it has happened. */
byte appends, power_losses, deaths, failed_syncs, aborts, holes, readings;

/* Of one step; no part of the state. */
hidden byte i, j, p, s, record_, right, appended, revoked, limit, from_, skip_, unused, all_home;
hidden int id_, new_;
hidden byte laid[MOST_PLACES];

/* What versions hold. */
#define touches(sequence, of_) (page_of(hist[sequence]) == (of_))
#define at_most(v, n, of_) ((v) >= n && touches(n, of_))
#define last_change(v, of_) \
    (at_most(v, 4, of_) -> 4 : (at_most(v, 3, of_) -> 3 : (at_most(v, 2, of_) -> 2 : at_most(v, 1, of_))))
#define is_used(v, of_) (last_change(v, of_) == 0 -> (of_) < USED : !is_freed(hist[last_change(v, of_)]))
#define wrote(v, n, of_, sec) (at_most(v, n, of_) && changed(hist[n], sec))
#define content(v, of_, sec) \
    (wrote(v, 4, of_, sec) -> 4 : (wrote(v, 3, of_, sec) -> 3 : (wrote(v, 2, of_, sec) -> 2 : wrote(v, 1, of_, sec))))

/* Who may do what. */
#define writer_is_open (at[0] == OPEN || at[1] == OPEN)
#define registers(who) (at[who] == REGISTERED || at[who] == CHOSEN)
#define someone_registers (registers(0) || registers(1) || registers(2))
#define pinned(who) (at[who] == OPEN -> version[who] : last)
#define pinned_by_writers MIN(pinned(0), pinned(1))
#define oldest_pinned MIN(pinned_by_writers, pinned(2))
#define durable_record (IS(home_before_record) -> last : published)
#define home_limit (IS(home_beyond_reader) -> durable_record : MIN(durable_record, oldest_pinned))
#define begins_at(v) (possible_begins & BIT(v))
#define durable_begin (begins_at(0) -> 0 : (begins_at(1) -> 1 : (begins_at(2) -> 2 : (begins_at(3) -> 3 : 4))))
#define overwritten(n) (last + (n) - SLOTS) /* the record whose slot the n-th next one takes */
#define has_room(n) \
    (last + (n) <= SLOTS || (overwritten(n) <= (IS(reuse_before_checkpoint) -> published : durable_begin) && \
                             (IS(reuse_under_reader) || (overwritten(n) <= oldest_pinned && !someone_registers))))

/* LOG-9. `mistake` does not heed readers. */
#define durable_free (IS(free_not_durable) -> last : published)
#define free_from(mistake) (IS(mistake) -> durable_free : MIN(durable_free, oldest_pinned))
#define not_used_at(n, mistake, of_) (n < free_from(mistake) || n > last || !is_used(n, of_))
#define is_free_in_all(mistake, of_) \
    (not_used_at(0, mistake, of_) && not_used_at(1, mistake, of_) && not_used_at(2, mistake, of_) && \
     not_used_at(3, mistake, of_) && not_used_at(4, mistake, of_) && (IS(mistake) || !someone_registers))

inline write_home(of_, sec, value) {
    home[SECTORS * (of_) + (sec)] = value;
    possible[SECTORS * (of_) + (sec)] = possible[SECTORS * (of_) + (sec)] | BIT(value);
    lost_sectors = lost_sectors & ~BIT(SECTORS * (of_) + (sec))
}

/* A sync writes what the kernel takes for dirty. */
inline sync_home(pages) {
    for (i : 0 .. PLACES - 1) {
        if
        :: ((pages) & BIT(i / SECTORS)) && !(lost_sectors & BIT(i)) -> possible[i] = BIT(home[i])
        :: else
        fi
    }
}

inline set_slot(of_, id) {
    for (j : 0 .. CHOICES - 1) {
        choice[(of_) * CHOICES + j] = 0
    }
    slot[of_] = id;
    choice[(of_) * CHOICES] = id;
    choices[of_] = 1
}

inline sync_slots() {
    for (i : 0 .. SLOTS - 1) {
        if
        :: !(lost_slots & BIT(i)) -> set_slot(i, slot[i])
        :: else
        fi
    }
}

/* Of any file: what was dirty may be lost, and the kernel takes it for written. LOG-8: nothing is acknowledged any
 * more. */
inline fail_sync() {
    failed_syncs++;
    for (i : 0 .. PLACES - 1) {
        lost_sectors = (possible[i] != BIT(home[i]) -> lost_sectors | BIT(i) : lost_sectors)
    }
    for (i : 0 .. SLOTS - 1) {
        lost_slots = (choices[i] != 1 -> lost_slots | BIT(i) : lost_slots)
    }
    lost_begin = (possible_begins != BIT(begin));
    poisoned = !IS(failed_sync_believed)
}

/* Adds what may be in a slot. */
inline add_choice(of_, id) {
    new_ = id;
    skip_ = 0;
    for (j : 0 .. choices[of_] - 1) {
        skip_ = skip_ || choice[(of_) * CHOICES + j] == new_
    }
    if
    :: !skip_ ->
        assert(choices[of_] < CHOICES); /* or the bounds are too small for this world */
        j = choices[of_];
        do
        :: j > 0 && choice[(of_) * CHOICES + (j > 0 -> j - 1 : 0)] > new_ ->
            choice[(of_) * CHOICES + j] = choice[(of_) * CHOICES + j - 1];
            j--
        :: else -> break
        od;
        choice[(of_) * CHOICES + j] = new_;
        choices[of_]++
    :: else
    fi
}

/* A record that is torn becomes whole where the same payload is written over it again. */
inline put(sequence, id) {
    p = (sequence) % SLOTS;
    slot[p] = id;
    lost_slots = lost_slots & ~BIT(p);
    i = 0;
    do
    :: i < choices[p] ->
        new_ = choice[p * CHOICES + i];
        if
        :: (new_ & TORN) && !((id) & TORN) && without_epoch(new_ & ~TORN) == without_epoch(id) ->
            add_choice(p, new_ & ~TORN)
        :: else
        fi;
        i++
    :: else -> break
    od;
    add_choice(p, id);
    add_choice(p, (id) | TORN)
}

/* All that the log holds is to be written home again, but pages that went there before their record. */
inline open_anew() {
    for (p : 0 .. PAGES - 1) {
        home_version[p] = begin
    }
    for (i : begin + 1 .. last) {
        if
        :: is_homed(hist[i]) -> home_version[page_of(hist[i])] = i
        :: else
        fi
    }
    if
    :: IS(pages_not_written_again) -> /* what reads right is taken for written */
        for (p : 0 .. PAGES - 1) {
            for (i : home_version[p] + 1 .. last) {
                if
                :: home[SECTORS * p] == content(i, p, 0) && home[SECTORS * p + 1] == content(i, p, 1) ->
                    home_version[p] = i
                :: else
                fi
            }
        }
    :: else
    fi
}

/* LOG-1. Leaves the last sequence that counts in `limit`; LOG-2: it is of this history. */
inline scan() {
    limit = begin;
    id_ = (begin == 0 -> 0 : recorded(begin));
    do
    :: limit < RECORDS && slot[(limit + 1) % SLOTS] != 0 && !(slot[(limit + 1) % SLOTS] & TORN) &&
       sequence_of(slot[(limit + 1) % SLOTS]) == limit + 1 &&
       (slot[(limit + 1) % SLOTS] >> DIGIT == id_ || IS(chain_left_out)) ->
        limit++;
        id_ = slot[limit % SLOTS];
        /* What counts is a record of this history. */
        invariant(2, limit <= last);
        invariant(2, id_ == recorded(limit))
    :: else -> break
    od
}

/* The history ends at `limit`. */
inline forget_the_rest() {
    head = (limit == 0 -> 0 : recorded(limit));
    last = limit;
    for (i : limit + 1 .. 4) {
        hist[i] = 0
    }
}

#define seen_by(who, of_, sec) \
    (private[who] & BIT(of_) -> copy[(who) * MOST_PLACES + SECTORS * (of_) + (sec)] : home[SECTORS * (of_) + (sec)])

/* Heeds LOG-10. */
inline lay_over(who, from, to, heeds_revocations) {
    from_ = from;
    for (i : from_ + 1 .. to) {
        record_ = hist[i];
        p = page_of(record_);
        invariant(5, slot[i % SLOTS] == recorded(i)); /* the log is there */
        revoked = 0;
        for (j : i + 1 .. to) {
            revoked = revoked || (heeds_revocations && !IS(no_revocation) && is_homed(hist[j]) && touches(j, p))
        }
        if
        :: revoked
        :: else ->
            for (s : 0 .. SECTORS - 1) {
                copy[(who) * MOST_PLACES + SECTORS * p + s] =
                    (is_whole(record_) || logged(record_, s) -> i : (!is_range(record_) -> 0 : seen_by(who, p, s)))
            }
            private[who] = (is_range(record_) || is_whole(record_) -> private[who] | BIT(p) : private[who] & ~BIT(p))
        fi
    }
}

inline refresh(who, to) {
    lay_over(who, version[who], to, 0);
    version[who] = to
}

inline drop_copy(who, of_) {
    private[who] = private[who] & ~BIT(of_);
    copy[(who) * MOST_PLACES + SECTORS * (of_)] = 0;
    copy[(who) * MOST_PLACES + SECTORS * (of_) + 1] = 0
}

inline end_turn() {
    turn = 0;
    page = 0;
    sector = 0;
    doing = 0
}

/* The turn is given away before the sync. */
inline append(who, record) {
    new_ = follower(head, record);
    head = new_;
    put(last + 1, head);
    last++;
    hist[last] = record;
    appends++;
    if
    :: is_range(record) -> version[who] = last
    :: else -> refresh(who, last)
    fi;
    end_turn();
    stale_base = 0
}

/* A dead writer leaves private memory, which is gone, and at most a torn tail. LOG-2: the next epoch begins. */
inline die(who) {
    at[who] = CLOSED;
    version[who] = 0;
    first[who] = 0;
    for (p : 0 .. PAGES - 1) {
        drop_copy(who, p)
    }
    if
    :: (who) != READER ->
        epoch++;
        writing = 0;
        writing_sector = 0;
        writing_version = 0;
        checkpoint = 0;
        checkpoint_version = 0;
        stale_base = 0
    :: else
    fi;
    if
    :: turn == (who) + 1 -> end_turn()
    :: else
    fi;
    if
    :: at[0] == CLOSED && at[1] == CLOSED && at[2] == CLOSED && cold == 0 ->
        cold = 1;
        poisoned = 0
    :: else
    fi
}

/* The invariants that processes and media must keep in each state. */
inline check() {
    d_step {
        for (p : 0 .. USED - 1) {
            /* Home holds nothing that is newer than the last durable record; what is written directly, and not in use,
             * does no harm. */
            skip_ = 0;
            for (i : 1 .. last) {
                skip_ = skip_ || (touches(i, p) && !is_range(hist[i]))
            }
            invariant(3, skip_ || possible[SECTORS * p] < BIT(published + 1));
            invariant(3, skip_ || possible[SECTORS * p + 1] < BIT(published + 1))
        }
        for (i : 0 .. PROCESSES - 1) {
            if
            :: at[i] == OPEN ->
                invariant(7, version[i] <= last); /* its version is still there */
                for (p : 0 .. PAGES - 1) {
                    for (s : 0 .. SECTORS - 1) {
                        record_ = seen_by(i, p, s);
                        right = content(version[i], p, s);
                        skip_ = (turn == i + 1 && doing == STORED && page == p && sector == s);
                        unused = !is_used(version[i], p);
                        invariant(9, unused || record_ != HOLE);               /* no process sees a hole */
                        invariant(12, unused || !skip_ || record_ == last + 1); /* no store is lost */
                        /* Each process sees its version. */
                        invariant(4, unused || skip_ || record_ == right)
                    }
                }
            :: else
            fi
        }
    }
}

/* The first process that opens writes the tail again and syncs it before anybody sees it (LOG-7, LOG-8). */
inline opening(who) {
    at[who] == CLOSED && !poisoned && cold == 0 && ((who) != READER || readings < READINGS) ->
    d_step {
        readings = ((who) == READER -> readings + 1 : readings);
        at[who] = (IS(registered_too_late) -> UNREGISTERED : REGISTERED);
        version[who] = (IS(registered_too_late) -> published : 0);
        first[who] = (IS(registered_too_late) -> begin : 0)
    }
}

inline write_tail_again(who) {
    at[who] == CLOSED && !poisoned && cold == 1 && (who) != READER ->
    d_step {
        scan();
        forget_the_rest();
        lost_slots = (IS(tail_not_written_again) -> lost_slots : 0);
        lost_begin = 0;
        open_anew();
        cold = (IS(written_taken_for_durable) -> 0 : 2);
        published = (IS(written_taken_for_durable) -> last : published)
    }
}

inline sync_tail(who) {
    at[who] == CLOSED && !poisoned && cold == 2 && (who) != READER ->
    d_step {
        sync_slots();
        possible_begins = BIT(begin);
        published = last;
        cold = 0
    }
}

#define newest (IS(readers_see_written) -> last : published)

inline choose_version(who) {
    at[who] == REGISTERED -> /* LOG-13 */
    d_step {
        at[who] = CHOSEN;
        version[who] = newest;
        first[who] = begin
    }
}

inline see_version(who) {
    at[who] == CHOSEN || at[who] == UNREGISTERED ->
    d_step {
        at[who] = OPEN;
        lay_over(who, first[who], version[who], 1);
        first[who] = 0;
        seen = ((who) == READER && version[who] > seen -> version[who] : seen)
    }
}

inline catch_up(who) {
    at[who] == OPEN && version[who] < newest && turn != (who) + 1 ->
    d_step {
        limit = newest;
        refresh(who, limit);
        seen = ((who) == READER && version[who] > seen -> version[who] : seen)
    }
}

/* LOG-12. */
#define drops(who, of_) \
    (at[who] == OPEN && (private[who] & BIT(of_)) && \
     home_version[of_] >= last_change(version[who], of_) && writing != of_ + 1 && \
     (IS(drop_loses_store) || !(turn == (who) + 1 && doing == STORED && page == of_)))

inline drop(who, of_) {
    drops(who, of_) -> d_step { drop_copy(who, of_) }
}

#define may_begin(who) \
    (at[who] == OPEN && turn == 0 && !poisoned && last < RECORDS && appends < APPENDS && !tail_is_torn)
#define tail_is_torn ((slot[(last + 1) % SLOTS] & TORN) != 0 && !IS(tail_not_voided))

/* Durably (LOG-2). */
inline void_tail(who) {
    at[who] == OPEN && turn == 0 && !poisoned && last < RECORDS && appends < APPENDS && tail_is_torn ->
    d_step {
        i = (last + 1) % SLOTS;
        set_slot(i, 0);
        lost_slots = lost_slots & ~BIT(i)
    }
}

inline store(who, of_, sec) {
    is_used(last, of_) ->
    d_step {
        refresh(who, last);
        if
        :: !(private[who] & BIT(of_)) ->
            copy[(who) * MOST_PLACES + SECTORS * (of_)] = home[SECTORS * (of_)];
            copy[(who) * MOST_PLACES + SECTORS * (of_) + 1] = home[SECTORS * (of_) + 1];
            private[who] = private[who] | BIT(of_)
        :: else
        fi;
        copy[(who) * MOST_PLACES + SECTORS * (of_) + (sec)] = last + 1;
        turn = (who) + 1;
        doing = STORED;
        page = of_;
        sector = sec
    }
}

inline commit_page(who, of_) {
    FREES && has_room(1) ->
    d_step {
        refresh(who, last);
        appended = (is_used(last, of_) -> FREED(of_) : WHOLE(of_));
        append(who, appended)
    }
}

inline begin_direct_write(who, of_) {
    FREES && DIRECT && has_room(1) && !is_used(last, of_) && writing != of_ + 1 ->
    if
    :: is_free_in_all(direct_beside_reader, of_) ->
        d_step {
            refresh(who, last);
            turn = (who) + 1;
            doing = WRITES_HOME;
            page = of_;
            sector = 0
        }
    :: else
    fi
}

/* Heeds LOG-11. Stores after an abort repeat what was taken back. */
#define stores(who) (turn == (who) + 1 && doing == STORED)
#define stored_place (SECTORS * page + sector)

inline commit_store(who) {
    stores(who) && has_room(1) ->
    d_step {
        skip_ = (copy[(who) * MOST_PLACES + stored_place] != content(last, page, sector));
        skip_ = skip_ && stale_base != stored_place + 1;
        appended = RANGE(page, sector, skip_);
        append(who, appended)
    }
}

inline abort_store(who) {
    stores(who) && aborts < ABORTS ->
    d_step {
        aborts++;
        copy[(who) * MOST_PLACES + SECTORS * page] = content(last, page, 0);
        copy[(who) * MOST_PLACES + SECTORS * page + 1] = content(last, page, 1);
        if
        :: IS(abort_to_home) -> drop_copy(who, page)
        :: else
        fi;
        stale_base = (IS(base_too_new) -> stored_place + 1 : 0);
        end_turn()
    }
}

#define writes_home(who) (turn == (who) + 1 && doing == WRITES_HOME)

inline write_directly(who) {
    writes_home(who) && sector < SECTORS -> d_step { write_home(page, sector, last + 1); sector++ }
}

inline commit_direct_write(who) {
    writes_home(who) && sector == SECTORS && !poisoned && has_room(1) ->
    d_step {
        if
        :: !IS(direct_not_synced) -> sync_home(BIT(page))
        :: else
        fi;
        appended = HOMED(page);
        append(who, appended);
        home_version[page_of(hist[last])] = last
    }
}

inline fail_direct_write(who) {
    writes_home(who) && sector == SECTORS && !poisoned && has_room(1) && failed_syncs < FAILED_SYNCS ->
    d_step { fail_sync() }
}

inline death(who) {
    at[who] != CLOSED && ((who) == READER || deaths < DEATHS) ->
    d_step {
        deaths = ((who) == READER -> deaths : deaths + 1);
        die(who)
    }
}

inline death_within_an_append(who) {
    TORN_DEATHS && stores(who) && deaths < DEATHS && has_room(1) ->
    d_step {
        deaths++;
        appends++;
        id_ = follower(head, RANGE(page, sector, 1)) | TORN;
        put(last + 1, id_);
        die(who)
    }
}

/* One write has two records, of which the second is in the file and the first is dead. */
inline death_within_two_appends(who) {
    TORN_DEATHS && stores(who) && deaths < DEATHS && last + 2 <= RECORDS && appends + 2 <= APPENDS && has_room(2) ->
    d_step {
        deaths++;
        appends = appends + 2;
        id_ = follower(head, RANGE(page, sector, 1));
        put(last + 1, id_ | TORN);
        id_ = follower(id_, RANGE(page, 0, 1));
        put(last + 2, id_);
        die(who)
    }
}

/* Who calls it sets the page to 0 behind the step, so that it is no part of the state. */
inline choose_page(of_) {
    if
    :: of_ = 0
    :: PAGES > 1 -> of_ = 1
    :: PAGES > 2 -> of_ = 2
    fi
}

proctype process(byte me) provided (off == 0) {
    byte chosen;

    do
    :: atomic {
           if
           :: opening(me)
           :: write_tail_again(me)
           :: sync_tail(me)
           :: choose_version(me)
           :: see_version(me)
           :: catch_up(me)
           :: DROPS && private[me] != 0 ->
               choose_page(chosen);
               if
               :: drop(me, chosen)
               :: else
               fi;
               chosen = 0
           :: death(me)
           fi;
           check()
       }
    od
}

/* What a writer does beyond it. */
proctype committer(byte me) provided (off == 0) {
    byte chosen;

    do
    :: atomic {
           if
           :: void_tail(me)
           :: may_begin(me) ->
               choose_page(chosen);
               if
               :: store(me, chosen, 0)
               :: store(me, chosen, 1)
               :: commit_page(me, chosen)
               :: begin_direct_write(me, chosen)
               :: else
               fi;
               chosen = 0
           :: commit_store(me)
           :: abort_store(me)
           :: write_directly(me)
           :: commit_direct_write(me)
           :: fail_direct_write(me)
           :: death_within_an_append(me)
           :: death_within_two_appends(me)
           fi;
           check()
       }
    od
}

/* What any writer that is open does for all. */
#define keeps (writer_is_open && !poisoned)
#define may_fail (failed_syncs < FAILED_SYNCS)
#define dirty(slot_) (choices[slot_] != 1)
#define log_is_dirty (published < last || dirty(0) || dirty(SLOTS - 1) || dirty(1))

inline sync_log() {
    keeps && log_is_dirty ->
    if
    :: d_step { sync_slots(); published = last }
    :: may_fail -> d_step { fail_sync() }
    fi
}

/* LOG-3, LOG-4. The limit was looked up before the first sector is written. */
inline begin_home(of_) {
    writing == 0 && (!someone_registers || IS(home_beyond_reader)) ->
    d_step {
        limit = home_limit;
        if
        :: is_used(limit, of_) && home_version[of_] < last_change(limit, of_) &&
           !(doing == WRITES_HOME && page == of_) ->
            writing = of_ + 1;
            writing_version = limit
        :: else
        fi
    }
}

inline go_home() {
    keeps && writing != 0 ->
    d_step {
        p = writing - 1;
        record_ = content(writing_version, p, writing_sector);
        write_home(p, writing_sector, record_);
        writing_sector++;
        if
        :: writing_sector == SECTORS ->
            home_version[p] = writing_version;
            writing = 0;
            writing_sector = 0;
            writing_version = 0
        :: else
        fi
    }
}

/* LOG-6. */
inline begin_checkpoint(v) {
    if
    :: d_step {
           all_home = 1;
           for (p : 0 .. PAGES - 1) {
               all_home = all_home && (!is_used(v, p) || home_version[p] >= last_change(v, p))
           }
           if
           :: all_home || IS(checkpoint_leaves_out_a_page) ->
               if
               :: !IS(begin_before_home_is_synced) -> sync_home(255)
               :: else
               fi;
               checkpoint = 1;
               checkpoint_version = v
           :: else
           fi
       }
    :: may_fail ->
        d_step {
            all_home = 1;
            for (p : 0 .. PAGES - 1) {
                all_home = all_home && (!is_used(v, p) || home_version[p] >= last_change(v, p))
            }
            if
            :: all_home || IS(checkpoint_leaves_out_a_page) ->
                fail_sync();
                checkpoint = (poisoned -> 0 : 1);
                checkpoint_version = (poisoned -> 0 : v)
            :: else
            fi
        }
    fi
}

inline move_begin() {
    keeps && checkpoint == 1 ->
    d_step {
        checkpoint = 2;
        begin = checkpoint_version;
        possible_begins = possible_begins | BIT(begin);
        lost_begin = 0
    }
}

inline sync_begin() {
    keeps && checkpoint == 2 ->
    if
    :: d_step {
           possible_begins = (lost_begin -> possible_begins : BIT(begin));
           checkpoint = 0;
           checkpoint_version = 0
       }
    :: may_fail -> d_step { fail_sync() }
    fi
}

/* LOG-9. Truncation is such a hole. */
inline punch(of_) {
    holes < HOLES && writing != of_ + 1 && !(doing == WRITES_HOME && page == of_) ->
    if
    :: is_free_in_all(hole_under_reader, of_) ->
        d_step {
            holes++;
            write_home(of_, 0, HOLE);
            write_home(of_, 1, HOLE)
        }
    :: else
    fi
}

active proctype keeper() provided (off == 0) {
    byte chosen;

    do
    :: atomic {
           if
           :: sync_log()
           :: keeps ->
               choose_page(chosen);
               if
               :: begin_home(chosen)
               :: punch(chosen)
               :: else
               fi;
               chosen = 0
           :: go_home()
           :: keeps && checkpoint == 0 && writing == 0 && home_limit > begin ->
               chosen = begin + 1;
               do
               :: chosen < home_limit -> chosen++
               :: break
               od;
               begin_checkpoint(chosen);
               chosen = 0
           :: move_begin()
           :: sync_begin()
           fi;
           check()
       }
    od
}

/* LOG-14: what is recovered is one version as a whole, and none older than the last acknowledged one. */
inline judge() {
    d_step {
        scan();
        invariant(14, limit >= published); /* no acknowledged commit is lost */
        invariant(7, limit >= seen);       /* no reader saw what is lost */
        for (p : 0 .. PLACES - 1) {
            laid[p] = home[p]
        }
        for (i : begin + 1 .. limit) {
            p = page_of(hist[i]);
            revoked = is_homed(hist[i]) && !IS(no_revocation);
            for (j : i + 1 .. limit) {
                revoked = revoked || (!IS(no_revocation) && is_homed(hist[j]) && touches(j, p))
            }
            for (s : 0 .. SECTORS - 1) {
                laid[SECTORS * p + s] = (!revoked && logged(hist[i], s) -> i : laid[SECTORS * p + s])
            }
        }
        for (p : 0 .. PAGES - 1) {
            for (s : 0 .. SECTORS - 1) {
                /* Each page has its version's content. */
                unused = !is_used(limit, p);
                right = content(limit, p, s);
                invariant(14, unused || laid[SECTORS * p + s] == right)
            }
        }
        forget_the_rest();
        published = last;
        open_anew();
        epoch++;
        off = 0
    }
}

/* A loss of power leaves of each sector, slot and beginning one content that was possible: first of the sectors, then
 * of the slots, then of the beginning. */
#define choosing_sector (off > 0 && off <= PLACES)
#define choosing_slot (off > PLACES && off <= PLACES + SLOTS)
#define choosing_begin (off == PLACES + SLOTS + 1)

inline keep_content(value) {
    choosing_sector && (possible[(choosing_sector -> off - 1 : 0)] & BIT(value)) ->
    d_step {
        home[off - 1] = value;
        possible[off - 1] = BIT(value);
        off++
    }
}

inline keep_record(which) {
    choosing_slot && which < choices[(choosing_slot -> off - PLACES - 1 : 0)] ->
    d_step {
        i = off - PLACES - 1;
        id_ = choice[i * CHOICES + which];
        set_slot(i, id_);
        off++
    }
}

inline keep_begin(of_) {
    choosing_begin && (possible_begins & BIT(of_)) ->
    d_step {
        begin = of_;
        possible_begins = BIT(of_)
    }
    judge();
    check()
}

active proctype power() {
    do
    :: atomic {
           off == 0 && power_losses < POWER_LOSSES ->
           d_step {
               power_losses++;
               for (i : 0 .. PROCESSES - 1) {
                   at[i] = CLOSED;
                   version[i] = 0;
                   first[i] = 0;
                   for (p : 0 .. PAGES - 1) {
                       drop_copy(i, p)
                   }
               }
               for (p : 0 .. PAGES - 1) {
                   home_version[p] = 0
               }
               writing = 0;
               writing_sector = 0;
               writing_version = 0;
               checkpoint = 0;
               checkpoint_version = 0;
               end_turn();
               stale_base = 0;
               poisoned = 0;
               cold = 0;
               lost_sectors = 0;
               lost_slots = 0;
               lost_begin = 0;
               off = 1
           }
       }
    :: atomic {
           if
           :: keep_content(0)
           :: keep_content(1)
           :: keep_content(2)
           :: keep_content(3)
           :: keep_content(4)
           :: keep_content(5)
           :: keep_content(HOLE)
           fi
       }
    :: atomic {
           if
           :: keep_record(0)
           :: keep_record(1)
           :: keep_record(2)
           :: keep_record(3)
           :: keep_record(4)
           :: keep_record(5)
           :: keep_record(6)
           :: keep_record(7)
           fi
       }
    :: atomic {
           if
           :: keep_begin(0)
           :: keep_begin(1)
           :: keep_begin(2)
           :: keep_begin(3)
           :: keep_begin(4)
           fi
       }
    od
}

init {
    c_code {
        const struct {
            const char* name;
            uchar* value;
        } bounds[] = {
            {"PAGES", &PAGES},
            {"USED", &USED},
            {"SLOTS", &SLOTS},
            {"RECORDS", &RECORDS},
            {"APPENDS", &APPENDS},
            {"WRITERS", &WRITERS},
            {"READINGS", &READINGS},
            {"POWER_LOSSES", &POWER_LOSSES},
            {"DEATHS", &DEATHS},
            {"FAILED_SYNCS", &FAILED_SYNCS},
            {"ABORTS", &ABORTS},
            {"HOLES", &HOLES},
            {"FREES", &FREES},
            {"DIRECT", &DIRECT},
            {"DROPS", &DROPS},
            {"TORN_DEATHS", &TORN_DEATHS},
            {"MISTAKE", &MISTAKE},
        };
        for (unsigned each = 0; each < sizeof bounds / sizeof *bounds; ++each) {
            const char* given = getenv(bounds[each].name);
            *bounds[each].value = given != NULL ? atoi(given) : *bounds[each].value;
        }
    };
    d_step {
        for (i : 0 .. PLACES - 1) {
            possible[i] = 1
        }
        for (i : 0 .. SLOTS - 1) {
            choices[i] = 1
        }
        possible_begins = 1
    }
    atomic {
        run process(0);
        run committer(0);
        if
        :: WRITERS > 1 -> run process(1); run committer(1)
        :: else
        fi;
        if
        :: READINGS > 0 -> run process(READER)
        :: else
        fi
    }
}
