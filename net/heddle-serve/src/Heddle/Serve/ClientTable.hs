-- |
-- Module      : Heddle.Serve.ClientTable
-- Description : What a server remembers of its clients, in bounded memory
-- Stability   : internal, exempt from the version policy
--
-- Two tables of fixed size, one of request rates, one of open connections. Clients choose their addresses, so a
-- table's place for a client is a SipHash under the key of the process, and an attacker cannot aim at one place.
-- Both are shared by all capabilities, which makes the limits exact for a client whose connections are on several
-- cores; a request writes a word that only requests of the same client write, but for four clients in a cache line.
--
-- Cost: about a hash and a compare-and-set for a request or a connection; 1 MB for rates, 512 KB for connections.
-- Owner: any thread; arrays of words that the garbage collector does not look into.
module Heddle.Serve.ClientTable
  ( ClientKey,
    clientKey,
    clientKeyFor,

    -- * Rates
    RateTable,
    RateLimit (..),
    newRateTable,
    spend,

    -- * Connections
    CountTable,
    newCountTable,
    enter,
    leave,
  )
where

import Data.Bits (shiftL, shiftR, xor, (.&.), (.|.))
import Data.Word (Word64)
import Heddle.Bytes.Hash (hashWith, processKey)
import Heddle.Gateway.Proxy (PeerAddress (..))
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline (..), Nanos (..))

-- | What stands for a client; never 0.
newtype ClientKey = ClientKey Word64
  deriving stock (Eq, Show)

-- | The key of an address. The addresses of a network of 64 bits of IPv6 are one client, for every subscriber has that
-- many. A Unix socket's peer has no address, and is no client.
clientKey :: PeerAddress -> Maybe ClientKey
clientKey = clientKeyFor 0

-- | The same where several count in one table, each with a number of its own.
clientKeyFor :: Word64 -> PeerAddress -> Maybe ClientKey
clientKeyFor whose = \case
  PeerLocal -> Nothing
  PeerInternet high low _
    | high == 0 && low `shiftR` 32 == 0xFFFF -> key (0, low)
    | otherwise -> key (high, 0 :: Word64)
  where
    key (high, low) = Just (ClientKey (max 1 (hashWith processKey (high `xor` whose, low :: Word64))))

-- | A rate of requests.
data RateLimit = RateLimit
  { -- | The time in which a client earns a request.
    rateInterval :: !Nanos,
    -- | How many requests may come at once.
    rateBurst :: !Int
  }
  deriving stock (Eq, Show)

-- | Sets of four slots. A slot is two words: a client's key, or 0, and the time at which the client has earned back all
-- of its burst. See Note [One word for a bucket]. Their number is a power of two.
data RateTable = RateTable !Int !Words

-- | A table of this many sets of four clients; a power of two.
newRateTable :: Int -> IO RateTable
newRateTable sets = RateTable sets <$> newWords (8 * sets)

-- | Count a request that came at this time: 0 if it is within the limit, otherwise after which time one would be. A
-- request over the limit is not counted.
--
-- [Blocks]: never.
spend :: RateTable -> RateLimit -> Deadline -> ClientKey -> IO Nanos
spend (RateTable sets table) (RateLimit (Nanos interval) burst) (Deadline now) (ClientKey key) = attempt (100 :: Int)
  where
    tag = fromIntegral key :: Int
    base = 8 * (fromIntegral (key `shiftR` 32) .&. (sets - 1))
    slack = (burst - 1) * interval
    attempt tries = do
      -- Somebody else has won each time; one request more is no harm.
      if tries == 0 then pure (Nanos 0) else look 0 (-1) 0 maxBound tries
    look i oldest oldestOwner oldestFull tries
      | i == 4 = replace oldest oldestOwner oldestFull tries
      | otherwise = do
        -- In this order: a slot that is claimed meanwhile is either the client's own or looks as it was before.
        full <- atomicRead table (base + 2 * i + 1)
        owner <- atomicRead table (base + 2 * i)
        if owner == tag
          then counted i full tries
          else if full < oldestFull then look (i + 1) i owner full tries else look (i + 1) oldest oldestOwner oldestFull tries
    counted i full tries
      | start - now > slack = pure (Nanos (start - slack - now))
      | otherwise = do
        won <- compareAndSet table (base + 2 * i + 1) full (start + interval)
        if won then pure (Nanos 0) else attempt (tries - 1)
      where
        start = max now full
    -- The client that needs its slot least: most often it has earned everything back, and loses nothing.
    replace i owner full tries = do
      won <- compareAndSet table (base + 2 * i) owner tag
      -- Another request of the client may have spent from the slot already.
      begun <- if won then compareAndSet table (base + 2 * i + 1) full (now + interval) else pure False
      if begun then pure (Nanos 0) else attempt (tries - 1)

-- | Sets of eight words. A word is 0, or 48 bits of a client's key and 16 bits of the number of its connections. The number of
-- sets is a power of two.
data CountTable = CountTable !Int !Words

-- | A table of this many sets of eight clients; a power of two.
newCountTable :: Int -> IO CountTable
newCountTable sets = CountTable sets <$> newWords (8 * sets)

-- The highest number that a count can hold.
most :: Int
most = 65535

-- | Count a connection of a client that may have this many; 'False' if it has them. A connection that finds no room
-- among the clients of its set is counted nowhere: 'Nothing'.
--
-- [Blocks]: never.
enter :: CountTable -> Int -> ClientKey -> IO (Maybe Bool)
enter (CountTable sets table) limit (ClientKey key) = attempt
  where
    (tag, base) = countPlace sets key
    attempt = look 0 (0 :: Int) (-1) (-1)
    look i total mine unused
      | i == 8 =
        if total >= limit
          then pure (Just False)
          else
            if mine >= 0
              then atomicRead table (base + mine) >>= \w -> if w .&. most /= 0 && w `shiftR` 16 == tag && w .&. most < most then swap mine w (w + 1) else attempt
              else if unused >= 0 then swap unused 0 (tag `shiftL` 16 .|. 1) else pure Nothing
      | otherwise = do
        w <- atomicRead table (base + i)
        if w == 0
          then look (i + 1) total mine (if unused < 0 then i else unused)
          else if w `shiftR` 16 == tag then look (i + 1) (total + w .&. most) i unused else look (i + 1) total mine unused
    swap i before after' = do
      won <- compareAndSet table (base + i) before after'
      if won then pure (Just True) else attempt

-- | A connection that was counted has ended.
--
-- [Blocks]: never.
leave :: CountTable -> ClientKey -> IO ()
leave (CountTable sets table) (ClientKey key) = look 0
  where
    (tag, base) = countPlace sets key
    look i
      | i == 8 = look 0
      | otherwise = do
        w <- atomicRead table (base + i)
        if w /= 0 && w `shiftR` 16 == tag
          then do
            won <- compareAndSet table (base + i) w (if w .&. most == 1 then 0 else w - 1)
            if won then pure () else look i
          else look (i + 1)

-- The part of a key that is stored, positive as a word, and the set's first word.
countPlace :: Int -> Word64 -> (Int, Int)
countPlace sets key = (fromIntegral (key `shiftR` 17), 8 * (fromIntegral key .&. (sets - 1)))

-- Note [One word for a bucket]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- A token bucket is a number of tokens and the time at which it was right. The generic cell rate algorithm keeps the same in
-- one number: the time at which the bucket will be full. A request is within the limit if that time is at most
-- (burst - 1) intervals ahead, and moves it by one interval. One word can be changed by a compare-and-set, so two cores
-- never spend the same token.
--
-- The key's word and the time's are changed separately. A request that finds its client's key just written may still
-- read the time of the client that had the slot before, and spend from there. That one had earned back the most of its
-- set, mostly all, and then this is a full bucket, too; so the request that claimed the slot goes on from that time, and does
-- not write over it. If two requests claim slots for one client at once, the client has two buckets until one is replaced.
-- Both errors are rare and small.
