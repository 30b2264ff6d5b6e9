{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.OpenFlow.Load
-- Description : Many switches that load a controller
-- Stability   : stable
--
-- What cbench does, with a window, latencies and fairness. Each switch sends packet-ins of its hosts, each with a
-- buffer number of its own, and keeps at most a window of them without an answer. The first flow modification or
-- packet-out with the buffer's number is the answer; a second one for the same number is not counted, and one that
-- does not come in time is counted as lost.
--
-- In a closed loop every answer is followed by the next packet-in. In an open loop packet-ins are due at a rate, and
-- a latency begins when its packet-in was due, whether or not there was room for it.
--
-- Cost: for each request about a hundred nanoseconds and its share of two system calls; nothing is allocated.
-- Owner: 'runLoad'; one thread for each switch.
module Heddle.OpenFlow.Load
  ( LoadOptions (..),
    defaultLoad,
    runLoad,
    LoadResult (..),
    SwitchResult (..),
  )
where

import Control.Monad (forM, forM_, unless, void, when)
import Data.Bits (shiftL, shiftR, xor, (.&.), (.|.))
import Data.ByteString qualified as B
import Data.ByteString.Unsafe qualified as B (unsafeUseAsCStringLen)
import Data.Maybe (catMaybes)
import Data.Word (Word64, Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (fillBytes, moveBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Bytes.Hash (newKey, sipHash13)
import Heddle.IO (Conn, Runtime, close, connectUntil)
import Heddle.IO.Registration
import Heddle.OpenFlow.Message
import Heddle.OpenFlow.Multipart
import Heddle.OpenFlow.Types
import Heddle.OpenFlow.View
import Heddle.Prim.Atomic
import Heddle.Prim.Buffer
import Heddle.Prim.Clock
import Heddle.Prim.Errno (Errno (..), describeErrno, pattern EAGAIN, pattern EINTR)
import Heddle.Prim.Exception
import Heddle.Prim.Histogram (Histogram, Precision (..), Recorder, newRecorder, recordValue, snapshot)
import Heddle.Scope qualified as Scope
import Heddle.Timer (sleepUntil)
import Network.Socket (SockAddr)

-- | The load, and its duration.
data LoadOptions = LoadOptions
  { loadController :: !SockAddr,
    loadVersion :: !Version,
    loadSwitches :: !Int,
    -- | Hosts of each switch.
    loadHosts :: !Int,
    -- | The most unanswered packet-ins of a switch.
    loadWindow :: !Int,
    -- | Packet-ins a second of all switches together; 'Nothing' for a closed loop.
    loadRate :: !(Maybe Double),
    loadWarmup :: !Nanos,
    loadDuration :: !Nanos,
    -- | Send from each host before the measurement, so that destinations are known.
    loadLearn :: !Bool,
    -- | The time after which an answer is lost; also for connecting.
    loadPatience :: !Nanos,
    -- | Threads are spread over this many capabilities.
    loadThreads :: !Int,
    -- | The first datapath; several generators have different ones.
    loadFirstDatapath :: !DatapathId
  }

-- | The load of the Mio paper: 100 switches with 1,000 hosts each and at most 512 unanswered requests, for ten
-- seconds after one of warming up.
defaultLoad :: SockAddr -> LoadOptions
defaultLoad address = LoadOptions address OF10 100 1000 512 Nothing (seconds 1) (seconds 10) True (seconds 10) 1 1

-- | The result.
data LoadResult = LoadResult
  { -- | How long it was measured.
    resultSeconds :: !Double,
    resultAnswers :: !Int,
    -- | Answers that came for a request that had one already.
    resultSecond :: !Int,
    resultLost :: !Int,
    -- | Packet-outs without a buffer's number, which cannot be tied to a request.
    resultOther :: !Int,
    -- | Seconds from the first connection to the last switch that is ready.
    resultConnecting :: !Double,
    -- | In nanoseconds, at most 1/64 too high.
    resultLatencies :: !Histogram,
    resultSwitches :: ![SwitchResult],
    -- | Switches that failed, and why.
    resultFailed :: ![String]
  }

-- | The counts of one fake switch.
data SwitchResult = SwitchResult
  { switchAnswers :: !Int,
    switchLost :: !Int
  }
  deriving stock (Eq, Show)

-- Words of a switch.
wAnswers, wSecond, wLost, wOther, wState, wOutstanding, wRandom, wNext, wHost, wBase, wFree, wOldest :: Int
wAnswers = 0
wSecond = 1
wLost = 2
wOther = 3
-- 0: handshake; 1: ready.
wState = 4
wOutstanding = 5
wRandom = 6
-- How many packet-ins were sent, or due.
wNext = 7
-- Hosts that were heard of.
wHost = 8
-- The sum of answers when the measurement began.
wBase = 9
-- The first free slot, -1 for none; the next of each is in its word.
wFree = 10
wOldest = 11

-- Shared words: 0: 1 while it is measured, 2 when it is over; 8: switches that are ready.
sPhase, sReady :: Int
sPhase = 0
sReady = 8

-- | Connect all switches, load, measure. The answer comes when all have ended.
--
-- [Blocks]: parks.
-- [Masking]: interruptible; all switches then end.
runLoad :: Runtime -> LoadOptions -> IO LoadResult
runLoad runtime options = do
  shared <- newWords 16
  recorders <- mapM (const (newRecorder (Precision 6))) [1 .. threads]
  began <- monotonicNow
  Scope.withScopeNamed "openflow/load" $ \scope -> do
    players <- forM [0 .. loadSwitches options - 1] $ \i -> do
      ws <- newWords 16
      let capability = i `rem` threads
      task <- Scope.forkOn scope capability (trySync (play runtime options shared (recorders !! capability) ws i))
      pure (ws, task)
    limit <- deadlineIn (loadPatience options)
    let waitReady = do
          n <- atomicRead shared sReady
          now <- monotonicNow
          ended <- catMaybes <$> mapM (Scope.tryAwait . snd) players
          unless (n + length ended >= loadSwitches options || now >= limit) $ sleepUntil (after (milliseconds 5) now) >> waitReady
    waitReady
    ready <- monotonicNow
    sleepUntil (after (loadWarmup options) ready)
    forM_ players $ \(ws, _) -> readWord ws wAnswers >>= writeWord ws wBase
    from <- monotonicNow
    atomicWrite shared sPhase 1
    sleepUntil (after (loadDuration options) from)
    to <- monotonicNow
    counts <- forM players $ \(ws, _) -> SwitchResult <$> ((-) <$> readWord ws wAnswers <*> readWord ws wBase) <*> readWord ws wLost
    atomicWrite shared sPhase 2
    failures <- forM players $ \(_, task) -> Scope.awaitUntil task (after (seconds 5) to)
    sums <- forM [wSecond, wOther] $ \w -> sum <$> mapM (\(ws, _) -> readWord ws w) players
    latencies <- mconcat <$> mapM snapshot recorders
    let took = fromIntegral (nanosCount (elapsed from to)) / 1e9
    pure
      LoadResult
        { resultSeconds = took,
          resultAnswers = sum (map switchAnswers counts),
          resultSecond = head sums,
          resultOther = last sums,
          resultLost = sum (map switchLost counts),
          resultConnecting = fromIntegral (nanosCount (elapsed began ready)) / 1e9,
          resultLatencies = latencies,
          resultSwitches = counts,
          resultFailed = [describeException e | Just (Left e) <- failures]
        }
  where
    threads = max 1 (loadThreads options)

-- One switch, from connecting to the end.
play :: Runtime -> LoadOptions -> Words -> Recorder -> Words -> Int -> IO ()
play runtime options shared recorder ws number =
  bracket (connecting >>= either throwIO pure) close $ \conn -> do
    slots <- newWords (3 * window)
    input <- newBuffer 0x20000
    output <- newBuffer (packetInBound frameBytes * window + 0x1000)
    key <- newKey
    writeWord ws wRandom (fromIntegral (sipHash13 key B.empty .|. 1))
    forM_ [0 .. window - 1] $ \i -> writeWord slots (3 * i) (if i + 1 < window then i + 1 else -1)
    allocaBytes frameBytes $ \frame -> do
      fillBytes frame 0 frameBytes
      poke16 frame 12 0x0800
      conversation conn (Player options shared recorder ws slots input output frame number)
  where
    window = loadWindow options
    connecting = deadlineIn (loadPatience options) >>= connectUntil runtime (loadController options)

frameBytes :: Int
frameBytes = 64

data Player = Player
  { playerOptions :: !LoadOptions,
    playerShared :: !Words,
    playerRecorder :: !Recorder,
    playerWords :: !Words,
    -- | Three words for each slot: the next free one, its buffer number (0 while it is free), when its packet-in was
    -- due.
    playerSlots :: !Words,
    playerInput :: !Buffer,
    playerOutput :: !Buffer,
    playerFrame :: !(Ptr Word8),
    playerNumber :: !Int
  }

conversation :: Conn -> Player -> IO ()
conversation conn player = mask_ $ do
  send (helloFor [version])
  Deadline start <- monotonicNow
  loop start 0
  where
    options = playerOptions player
    version = loadVersion options
    ws = playerWords player
    slots = playerSlots player
    shared = playerShared player
    registration = registrationOf conn
    window = loadWindow options
    Nanos patience = loadPatience options
    -- Nanoseconds between two packet-ins of a switch.
    interval = (\r -> max 1 (round (1e9 * fromIntegral (loadSwitches options) / r))) <$> loadRate options :: Maybe Int

    send m = either (ioError . userError . show) sendWhole (encode version 1 m)
    sendWhole bytes = B.unsafeUseAsCStringLen bytes $ \(p, n) -> sendOut (castPtr p) n
    sendOut p n = do
      deadline <- deadlineIn (loadPatience options)
      r <- sendUntil registration p n deadline
      when (r /= n) $ throwCode "sending to the controller" r

    loop :: Int -> Int -> IO ()
    loop start end = do
      r <- withBuffer (playerInput player) $ \p -> receiveNow registration (p `plusPtr` end) (bufferSize (playerInput player) - end)
      phase <- atomicRead shared sPhase
      Deadline now <- freshNow registration
      if phase == 2
        then pure ()
        else case () of
          _
            | r > 0 -> do
              left <- frames phase now (end + r)
              produce start now
              -- What has come meanwhile is read at once only after a full buffer.
              unless (r == bufferSize (playerInput player) - end) (await start now)
              allowInterrupt
              loop start left
            | r == 0 -> ioError (userError "the controller closed the connection")
            | Errno (negate r) == EINTR -> loop start end
            | Errno (negate r) == EAGAIN -> do
              produce start now
              await start now
              loop start end
            | otherwise -> ioError (userError ("the connection failed: " ++ describeErrno (Errno (negate r))))

    await start now = do
      state <- readWord ws wState
      next <- readWord ws wNext
      hung <- hungUp registration
      when hung (forgetHangUp registration)
      let most = now + 100000000
          due = case interval of
            Just every | state == 1 -> max (now + 100000) (min most (start + next * every))
            _ -> most
      waitUntil registration Readable (Deadline due)

    -- Handle whole frames; the answer is how many bytes are left, moved to the front.
    frames :: Int -> Int -> Int -> IO Int
    frames phase now end = withBuffer (playerInput player) $ \base -> go base 0
      where
        go base at = do
          n <- frameLength (base `plusPtr` at) (end - at)
          if n > 0
            then handle phase now (base `plusPtr` at) n >> go base (at + n)
            else do
              when (n == frameBad) $ ioError (userError "the controller sent a message with a length below 8")
              when (at > 0) $ moveBytes base (base `plusPtr` at) (end - at)
              pure (end - at)

    handle :: Int -> Int -> Ptr Word8 -> Int -> IO ()
    handle phase now p n = do
      kind <- viewType p
      case () of
        _
          | kind == typeFlowMod && n >= flowModLeast -> peek32 p flowModBufferAt >>= \buffer -> unless (buffer == NoBuffer) (answered phase now (fromIntegral buffer))
          | kind == typePacketOut && n >= 16 -> peek32 p 8 >>= answered phase now . fromIntegral
          | otherwise -> other p n kind
    (flowModBufferAt, flowModLeast) = case version of
      OF10 -> (64, 72)
      OF13 -> (32, 56)

    answered :: Int -> Int -> Int -> IO ()
    answered phase now buffer
      | buffer == 0xffffffff = bump wOther
      | otherwise = do
        let slot = buffer `rem` window
        expected <- readWord slots (3 * slot + 1)
        if expected /= buffer || buffer == 0
          then bump wSecond
          else do
            due <- readWord slots (3 * slot + 2)
            release slot
            bump wAnswers
            when (phase == 1) $ recordValue (playerRecorder player) (now - due)

    release slot = do
      free <- readWord ws wFree
      writeWord slots (3 * slot) free
      writeWord slots (3 * slot + 1) 0
      writeWord ws wFree slot
      k <- readWord ws wOutstanding
      writeWord ws wOutstanding (k - 1)

    bump w = readWord ws w >>= writeWord ws w . (+ 1)

    other p n kind = do
      bytes <- B.packCStringLen (castPtr p, n)
      let answer xid m = either (ioError . userError . show) sendWhole (encode version xid m)
      unless (kind == typeHello || kind == typeError) $ case decode version bytes of
        Right (xid, m) -> case m of
          EchoRequest b -> answer xid (EchoReply b)
          FeaturesRequest -> do
            answer xid (FeaturesReply (Features (loadFirstDatapath options + fromIntegral (playerNumber player)) 0x10000 1 0 0 0 (if version == OF10 then ports else [])))
            writeWord ws wState 1
            writeWord ws wNext 0
            void (fetchAdd shared sReady 1)
          BarrierRequest -> answer xid BarrierReply
          GetConfigRequest -> answer xid (GetConfigReply (SwitchConfig 0 0xffff))
          MultipartRequest _ PortDescriptionRequest -> answer xid (MultipartReply 0 (PortDescriptionReply ports))
          MultipartRequest _ DescriptionRequest -> answer xid (MultipartReply 0 (DescriptionReply (SwitchDescription B.empty B.empty B.empty B.empty B.empty)))
          RoleRequest r -> answer xid (RoleReply r)
          _ -> pure ()
        Left e -> ioError (userError ("the controller sent what cannot be read: " ++ show e))
      when (kind == typeError) $ ioError (userError "the controller sent an error")
    ports = [Port (PortNo (fromIntegral i)) (Mac (fromIntegral (playerNumber player * 256 + i))) B.empty 0 0 0 0 0 0 0 0 | i <- [1 .. portCount]]

    -- Send what is due, and what there is room for.
    produce :: Int -> Int -> IO ()
    produce start now = do
      state <- readWord ws wState
      when (state == 1) $ do
        expire now
        size <- withBuffer (playerOutput player) $ \out -> fill out 0
        when (size > 0) $ withBuffer (playerOutput player) $ \out -> sendOut out size
      where
        fill :: Ptr Word8 -> Int -> IO Int
        fill out at = do
          slot <- readWord ws wFree
          next <- readWord ws wNext
          let due = maybe now (\every -> start + next * every) interval
          if slot < 0 || due > now
            then pure at
            else do
              following <- readWord slots (3 * slot)
              writeWord ws wFree following
              let buffer = (next `rem` 0x10000 + 1) * window + slot
              writeWord slots (3 * slot + 1) buffer
              writeWord slots (3 * slot + 2) due
              writeWord ws wNext (next + 1)
              k <- readWord ws wOutstanding
              writeWord ws wOutstanding (k + 1)
              host <- hosts
              n <- pokePacketIn version (out `plusPtr` at) 0 (fromIntegral buffer) (PortNo (fromIntegral (host `rem` portCount + 1))) (playerFrame player) frameBytes
              fill out (at + n)

    -- Put two hosts into the frame; the answer is the sender.
    hosts = do
      known <- readWord ws wHost
      if loadLearn options && known < loadHosts options
        then do
          writeWord ws wHost (known + 1)
          addresses known (max 0 (known - 1))
        else do
          r <- random
          let source = fromIntegral ((r `shiftR` 33) `rem` fromIntegral (loadHosts options))
              step = 1 + fromIntegral ((r .&. 0xffffffff) `rem` fromIntegral (max 1 (loadHosts options - 1)))
          addresses source ((source + step) `rem` loadHosts options)
    addresses source destination = do
      poke48 (playerFrame player) 0 (address destination)
      poke48 (playerFrame player) 6 (address source)
      pure source
    address :: Int -> Word64
    address h = 0x020000000000 .|. fromIntegral (playerNumber player) `shiftL` 24 .|. fromIntegral h
    random :: IO Word64
    random = do
      x0 <- fromIntegral <$> readWord ws wRandom
      let x1 = x0 `xor` (x0 `shiftL` 13)
          x2 = x1 `xor` (x1 `shiftR` 7)
          x3 = x2 `xor` (x2 `shiftL` 17)
      writeWord ws wRandom (fromIntegral x3)
      pure (x3 * 0x2545f4914f6cdd1d)

    -- Requests without an answer are lost after a while; looked at once a tenth of the patience.
    expire now = do
      looked <- readWord ws wOldest
      when (now - looked > patience `quot` 10) $ do
        writeWord ws wOldest now
        forM_ [0 .. window - 1] $ \slot -> do
          buffer <- readWord slots (3 * slot + 1)
          due <- readWord slots (3 * slot + 2)
          when (buffer /= 0 && now - due > patience) $ do
            bump wLost
            release slot

portCount :: Int
portCount = 16
