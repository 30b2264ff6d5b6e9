{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Proxy.Balance
-- Description : Which upstream gets a request, and which are left out
-- Stability   : hidden; "Heddle.Gateway.Proxy" uses it
--
-- Turns and open requests are counted by each capability for itself. Health is shared, and written only when it changes.
--
-- An upstream that has failed several times in a row is left out for a time, which doubles with each further failure. After that time
-- requests are given to it again; the first success makes it as good as new. Active checks mark it down and up besides. If all
-- upstreams are left out, all are tried: a wrong suspicion must not make a site unreachable.
--
-- Cost: O(upstreams) for a choice; two atomic additions for a request.
-- Owner: choices and counts belong to their capability, health to all.
-- Shared writes per request: 0 between capabilities, unless an upstream fails.
module Heddle.Gateway.Proxy.Balance
  ( -- * Upstreams
    Member (..),
    newMember,
    Turns,
    newTurns,

    -- * Choosing
    Key (..),
    choose,
    enter,
    leave,
    openNow,

    -- * Health
    succeeded,
    failedOnce,
    markChecked,
    isUp,
  )
where

import Control.Monad (void, when)
import Data.Bits (popCount, shiftR, testBit, xor)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.List (sortOn)
import Data.Primitive.SmallArray (SmallArray, indexSmallArray, sizeofSmallArray)
import Data.Word (Word64)
import Heddle.Bytes.Hash (HashKey (..), sipHash13)
import Heddle.Gateway.Proxy.Settings
import Heddle.Http.Client (Origin (..), Place (..), Url (..), originAuthority, renderOrigin)
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline (..), Nanos (..), after)

-- | An upstream, and how it is.
data Member = Member
  { memberUpstream :: !Upstream,
    memberName :: !String,
    -- | For logs, as @192.0.2.7:80@.
    memberAddress :: !ByteString,
    -- | Word 0: failures in a row. Word 1: until when it is left out. Word 2: 1 while checks find it down.
    memberHealth :: !Words,
    memberHash :: !Word64
  }

-- | In good health.
newMember :: Upstream -> IO Member
newMember upstream = do
  health <- newWords 3
  let origin = urlOrigin (upstreamUrl upstream)
      name = renderOrigin origin
      address = case originPlace origin of
        UnixSocket path -> "unix:" <> path
        -- With the port also where the scheme has it.
        Tcp _ port -> originAuthority origin {originSecure = port /= 443}
  pure (Member upstream name address health (hashOf (C.pack name)))

-- Fixed, so that every process and every start agrees where a key belongs.
hashOf :: ByteString -> Word64
hashOf = sipHash13 (HashKey 0x686564646C652D67 0x6174657761792F31)

-- | One capability's counts: for each upstream its turn's credit, then its open requests.
newtype Turns = Turns Words

-- | For this many upstreams.
newTurns :: Int -> IO Turns
newTurns n = Turns <$> newWords (2 * max 1 n)

-- | What a choice depends on.
data Key
  = AnyOf
  | Fewest
  | KeyOf !ByteString

-- | An upstream that is not among those in the set (its bits), if there is one: its number.
choose :: SmallArray Member -> Turns -> Key -> Word64 -> Deadline -> IO (Maybe Int)
choose members (Turns turns) key tried now
  | n == 1 = pure $! if testBit tried 0 then Nothing else Just 0
  | popCount tried >= n = pure Nothing
  | otherwise = do
    up <- filterUp [i | i <- [0 .. n - 1], not (testBit tried i)]
    Just <$> case key of
      AnyOf -> inTurn up
      Fewest -> fewest up
      KeyOf bytes -> pure (best (hashOf bytes) up)
  where
    n = sizeofSmallArray members
    weight = max 1 . upstreamWeight . memberUpstream . indexSmallArray members
    filterUp all' = do
      states <- traverse (\i -> isUp (indexSmallArray members i) now) all'
      let up = [i | (i, True) <- zip all' states]
      pure (if null up then all' else up)
    -- Smooth turns: each gets its weight as credit, the richest pays for all.
    inTurn up = do
      credits <- traverse (\i -> (\before -> (before + weight i, i)) <$> readWord turns i) up
      let (_, chosen) = foldr1 (\a b -> if fst a >= fst b then a else b) credits
          total = sum (map weight up)
      mapM_ (\(credit, i) -> writeWord turns i (if i == chosen then credit - total else credit)) credits
      pure chosen
    fewest up = do
      loads <- traverse (\i -> (\open -> (open, i)) <$> atomicRead turns (n + i)) up
      -- Equals take turns.
      let lighter (a, i) (b, j) = (a + 1) * weight j < (b + 1) * weight i
          (least, one) = foldr1 (\x y -> if lighter y x then y else x) loads
          equals = [i | (a, i) <- loads, not (lighter (least, one) (a, i))]
      inTurn equals
    -- The largest of the scores that key and upstream have together, so that a lost upstream moves only its own keys.
    best hash up = case sortOn (negate . score hash) up of
      i : _ -> i
      [] -> 0
    score :: Word64 -> Int -> Double
    score hash i =
      let mixed = mix (hash `xor` memberHash (indexSmallArray members i))
          unit = (fromIntegral (mixed `shiftR` 11) + 0.5) / 9007199254740992
       in negate (fromIntegral (weight i)) / log unit

-- | Spreads bits: SplitMix64's finish.
mix :: Word64 -> Word64
mix z0 = z2 `xor` (z2 `shiftR` 31)
  where
    z1 = (z0 `xor` (z0 `shiftR` 30)) * 0xBF58476D1CE4E5B9
    z2 = (z1 `xor` (z1 `shiftR` 27)) * 0x94D049BB133111EB

-- | A request begins at, or ends at, an upstream.
enter, leave :: SmallArray Member -> Turns -> Int -> IO ()
enter members (Turns turns) i = void (fetchAdd turns (sizeofSmallArray members + i) 1)
leave members (Turns turns) i = void (fetchAdd turns (sizeofSmallArray members + i) (-1))

-- | How many requests are open at each upstream.
openNow :: SmallArray Member -> Turns -> IO [Int]
openNow members (Turns turns) = traverse (\i -> atomicRead turns (sizeofSmallArray members + i)) [0 .. sizeofSmallArray members - 1]

-- | Whether requests are given to an upstream.
isUp :: Member -> Deadline -> IO Bool
isUp member (Deadline now) = do
  until' <- readWord (memberHealth member) 1
  down <- readWord (memberHealth member) 2
  pure (until' <= now && down == 0)

-- | An upstream has answered; whether it had been left out before.
succeeded :: Member -> IO Bool
succeeded member = do
  failures <- readWord (memberHealth member) 0
  if failures == 0
    then pure False
    else do
      was <- readWord (memberHealth member) 1
      atomicWrite (memberHealth member) 0 0
      atomicWrite (memberHealth member) 1 0
      pure (was /= 0)

-- | An upstream has failed; for how long it is left out now, if it is.
failedOnce :: ProxySettings -> Member -> Deadline -> IO (Maybe Nanos)
failedOnce settings member now = do
  before <- fetchAdd (memberHealth member) 0 1
  Deadline until' <- Deadline <$> atomicRead (memberHealth member) 1
  let failures = before + 1
      beyond = failures - max 1 (proxyFailures settings)
      (Nanos first, Nanos most) = proxyBackOff settings
      time = Nanos (min most (first * 2 ^ min 20 (max 0 beyond)))
      Deadline end = after time now
  -- Requests that were under way when it was left out do not prolong that.
  if beyond < 0 || until' > deadlineNumber now
    then pure Nothing
    else do
      atomicWrite (memberHealth member) 1 end
      pure (Just time)
  where
    deadlineNumber (Deadline d) = d

-- | What a check has found; whether that is news.
markChecked :: Member -> Bool -> IO Bool
markChecked member up = do
  before <- atomicRead (memberHealth member) 2
  let down = if up then 0 else 1
  when (before /= down) (atomicWrite (memberHealth member) 2 down)
  -- A good answer ends a suspicion as well.
  when up (void (succeeded member))
  pure (before /= down)
