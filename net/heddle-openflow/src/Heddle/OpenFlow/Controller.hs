{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.OpenFlow.Controller
-- Description : A controller: a thread for each switch, in direct style or with handlers
-- Stability   : stable
--
-- 'withController' listens, speaks with each switch (1.0 or 1.3, whichever is the highest in common), answers its echo
-- requests, asks silent ones for a sign of life, and closes those that break the protocol or do not read.
--
-- There are two styles. 'Handlers' run in the thread that reads the switch, one message after the other; packet-ins
-- are handled in place and replies leave in one batch, but a handler must not wait. 'directly' gives each switch a
-- thread of its own that calls 'recv' when it likes, and may wait for answers ('request', 'commit'); its queue is
-- bounded.
--
-- Invariants: messages of one switch are handled in order; each connection ends with one call of 'onDown' or one
-- 'Down'; every request ends; memory for each connection is bounded; when 'withController' returns, no thread of it
-- is left.
-- Cost: a batch of packet-ins costs two system calls, and nothing is allocated for a packet-in that is handled in
-- place.
-- Owner: 'withController'.
-- Shared writes per packet-in: 0.
module Heddle.OpenFlow.Controller
  ( -- * Controllers
    Config (..),
    defaultConfig,
    Controller,
    withController,
    controllerAddress,
    switches,
    findSwitch,
    Event (..),
    renderEvent,
    controllerCounts,
    ControllerCounts (..),

    -- * Handlers
    Handlers (..),
    noHandlers,
    withFrame,
    following,
    reserve,
    written,
    emit,
    flushOutput,

    -- * Direct style
    Feed,
    directly,
    feedSwitch,
    recv,
    recvUntil,
    Input (..),

    -- * Switches
    Switch,
    SwitchInfo (..),
    infoPorts,
    switchInfo,
    SwitchCounts (..),
    switchCounts,
    disconnect,
    CloseReason (..),
    renderReason,

    -- ** Sending
    SendResult (..),
    trySend,
    sendUntil,

    -- ** Asking and changing
    module Heddle.OpenFlow.Request,
  )
where

import Control.Applicative ((<|>))
import Control.Monad (forM_, unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe qualified as B (unsafeUseAsCStringLen)
import Data.IntMap.Strict qualified as IntMap
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes, moveBytes)
import Foreign.Ptr (IntPtr (..), Ptr, castPtr, plusPtr, ptrToIntPtr)
import Heddle.Channel (Channel)
import Heddle.Channel qualified as Channel
import Heddle.IO (ListenOptions (..), Listener, Runtime, Spread (..), capabilitiesOf, defaultListenOptions, listenerAddress, peerAddress, withListener)
import Heddle.IO.Registration hiding (sendUntil)
import Heddle.IO.Service
import Heddle.IO.Transport
import Heddle.OpenFlow.Handshake
import Heddle.OpenFlow.Message
import Heddle.OpenFlow.Request
import Heddle.OpenFlow.Switch
import Heddle.OpenFlow.Types
import Heddle.OpenFlow.View
import Heddle.OpenFlow.Wire (DecodeError (..))
import Heddle.Prim.Atomic
import Heddle.Prim.Buffer
import Heddle.Prim.Clock
import Heddle.Prim.Errno (Errno (..), describeErrno, pattern EAGAIN, pattern EINTR)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (ThreadId, myThreadId, yield)
import Heddle.Scope qualified as Scope
import Network.Socket (SockAddr (..), tupleToHostAddress)

-- | Settings of listening and of time limits.
data Config = Config
  { configAddress :: !SockAddr,
    configSpread :: !Spread,
    -- | The versions that are spoken.
    configVersions :: ![Version],
    -- | Opens TLS on each connection, such as heddle-tls's @tlsOpening@.
    configTls :: !(Maybe Opening),
    -- | The limit of connecting, with TLS and the handshake.
    configHandshake :: !Nanos,
    -- | After this silence a switch is asked for an echo.
    configEchoAfter :: !Nanos,
    -- | After this silence its connection is closed.
    configDeadAfter :: !Nanos,
    -- | A switch that takes nothing for so long is closed.
    configStall :: !Nanos,
    -- | The time that a duplicate of a datapath waits for the older connection's sign of life.
    configProbe :: !Nanos,
    -- | The time that 'request' and 'commit' wait.
    configPatience :: !Nanos,
    -- | The most bytes of other threads' messages that wait for one switch.
    configMailRoom :: !Int,
    -- | The most messages that wait for one body.
    configQueue :: !Int,
    -- | Receives what happens; must not wait for long. The end of a switch is told uninterruptibly.
    configTell :: !(Event -> IO ())
  }

-- | Port 6653 of the local machine, both versions, no TLS, nothing told.
defaultConfig :: Config
defaultConfig =
  Config
    { configAddress = SockAddrInet 6653 (tupleToHostAddress (127, 0, 0, 1)),
      configSpread = PortPerCapability,
      configVersions = [OF10, OF13],
      configTls = Nothing,
      configHandshake = seconds 10,
      configEchoAfter = seconds 5,
      configDeadAfter = seconds 15,
      configStall = seconds 15,
      configProbe = seconds 1,
      configPatience = seconds 10,
      configMailRoom = 0x100000,
      configQueue = 1024,
      configTell = \_ -> pure ()
    }

-- | Events of connections.
data Event
  = Connected !SwitchInfo
  | Ended !SwitchInfo !CloseReason
  | -- | A connection that did not become a switch: its address, and why.
    NotConnected !String !CloseReason
  | -- | A message that cannot be read; the connection goes on.
    Undecodable !SwitchInfo !DecodeError
  deriving stock (Show)

-- | A line for the log.
renderEvent :: Event -> String
renderEvent = \case
  Connected info -> name info ++ " connected from " ++ infoPeer info ++ " (OpenFlow " ++ shown (infoVersion info) ++ ")"
  Ended info reason -> name info ++ " disconnected: " ++ renderReason reason
  NotConnected peer reason -> peer ++ ": " ++ renderReason reason
  Undecodable info e -> name info ++ ": a message that cannot be read: " ++ decodeWhat e
  where
    name info = "switch " ++ renderDatapath (infoDatapath info)
    shown = \case
      OF10 -> "1.0"
      OF13 -> "1.3"

-- | Actions for a switch's messages. All run in the thread that reads the switch, masked, and must not wait for
-- answers or locks; one that throws ends this connection.
data Handlers = Handlers
  { -- | A packet-in: 'withFrame' has it.
    onPacketIn :: !(IO ()),
    -- | Any other message that answers nothing.
    onMessage :: !(Xid -> Message -> IO ()),
    -- | The connection has ended. Called once; what it throws goes to the program's handler of uncaught exceptions.
    onDown :: !(CloseReason -> IO ())
  }

-- | They ignore everything.
noHandlers :: Handlers
noHandlers = Handlers (pure ()) (\_ _ -> pure ()) (\_ -> pure ())

-- | A listening controller.
data Controller = Controller
  { controllerConfig :: !Config,
    controllerListener :: !Listener,
    controllerSwitches :: !(Ref (Map DatapathId Switch)),
    controllerNumbers :: !(Ref Numbers),
    -- | The bodies' threads, and the word that says whether they wait.
    controllerBodies :: !(Ref (Map ThreadId Words)),
    -- | Has the bodies in direct style.
    controllerScope :: !Scope.Scope,
    -- | Buffers for each capability.
    controllerPools :: !(Table (Pool Buffer)),
    -- | 0: connections made; 1: connections ended; 2: handshakes that failed; 3 and 4: packet-ins and messages of
    -- connections that have ended.
    controllerWords :: !Words
  }

-- Numbers that were given back, and the next.
data Numbers = Numbers ![Int] !Int

-- | The address bound, with the port that the system chose for 0.
controllerAddress :: Controller -> SockAddr
controllerAddress = listenerAddress . controllerListener

-- | The switches that are connected.
--
-- [Cost]: O(switches).
-- [Threads]: any.
switches :: Controller -> IO [Switch]
switches controller = Map.elems <$> readRef (controllerSwitches controller)

-- | The switch of a datapath that is connected now.
findSwitch :: Controller -> DatapathId -> IO (Maybe Switch)
findSwitch controller datapath = Map.lookup datapath <$> readRef (controllerSwitches controller)

-- | Totals, including connections that have ended.
data ControllerCounts = ControllerCounts
  { countConnected :: !Int,
    countEnded :: !Int,
    countRefused :: !Int,
    countPacketIns :: !Int,
    countMessages :: !Int
  }
  deriving stock (Eq, Show)

-- | The counts since the start, over all switches.
controllerCounts :: Controller -> IO ControllerCounts
controllerCounts controller = do
  -- Counts of connections move from one sum to the other; a reader may miss one that ends at this moment.
  now <- switches controller >>= mapM switchCounts
  let ws = controllerWords controller
  ControllerCounts <$> readWord ws 0 <*> readWord ws 1 <*> readWord ws 2
    <*> ((+ sum (map countsPacketIns now)) <$> readWord ws 3)
    <*> ((+ sum (map countsMessages now)) <$> readWord ws 4)

-- | Close a switch's connection.
--
-- [Blocks]: never.
-- [Threads]: any.
disconnect :: Switch -> IO ()
disconnect switch = giveUp switch ControllerStopped

-- | Listen, run, and end all connections. For each switch that has connected, the second argument makes its handlers;
-- it runs in the switch's thread and may send with 'emit', but must not wait for the switch.
--
-- [Blocks]: as the body does.
-- [Masking]: the body runs in the caller's state, handlers masked.
-- [Throws]: 'IOError' when the address cannot be listened on.
withController :: Runtime -> Config -> (Controller -> Switch -> IO Handlers) -> (Controller -> IO a) -> IO a
withController runtime config handlersFor body =
  withListener runtime defaultListenOptions {listenSpread = configSpread config} (configAddress config) $ \listener -> Scope.withScopeNamed "openflow" $ \scope -> do
    controller <- Controller config listener <$> newRef Map.empty <*> newRef (Numbers [] 0) <*> newRef Map.empty <*> pure scope <*> pools <*> newWords 8
    let options =
          defaultServiceOptions
            { serviceName = "openflow/switch",
              serviceFirstByte = maybe (nanos 0) (const (configHandshake config)) (configTls config),
              serviceFailed = tell controller . NotConnected "a connection" . HandlerFailed . describeException
            }
    bracket (startService options listener (\registration -> Done <$ converse controller handlersFor registration)) stop (const (body controller))
  where
    pools = do
      let capabilities = capabilitiesOf runtime
      first <- newPool 8 (newBuffer bufferBytes)
      table <- newTable capabilities first
      forM_ [1 .. capabilities - 1] $ \i -> newPool 8 (newBuffer bufferBytes) >>= writeEntry table i
      pure table
    stop service = do
      stopAccepting service
      uninterruptibleMask_ $ drain service
      endService service
    -- New connections may come up to the moment when accepting has ended.
    drain service = do
      closeConnections service
      deadline <- deadlineIn (milliseconds 100)
      done <- awaitDrainedUntil service deadline
      unless done (drain service)

tell :: Controller -> Event -> IO ()
tell controller event = void (trySync (configTell (controllerConfig controller) event)) -- No fault of the connection's.

-- One connection, from its first byte on. The caller is masked.
converse :: Controller -> (Controller -> Switch -> IO Handlers) -> Registration -> IO ()
converse controller handlersFor registration = do
  peer <- maybe "an address that is not known" show <$> peerAddress (connectionOf registration)
  deadline <- deadlineIn (configHandshake config)
  opened <- case configTls config of
    Nothing -> pure (Right (Bare registration))
    Just opening ->
      opening registration deadline >>= \case
        Opened layer -> pure (Right (Layered registration layer))
        OtherProtocol _ -> pure (Left "the peer does not speak TLS")
        NotOpened why -> pure (Left why)
  case opened of
    Left why -> refused peer (HandshakeFailed why)
    Right transport ->
      ( handshake (configVersions config) transport deadline >>= \case
          Left reason -> refused peer reason
          Right (version, features, ports, left) -> admit peer transport version features ports left
      )
        `finally` closeTransport transport
  where
    config = controllerConfig controller
    refused peer reason = do
      void (fetchAdd (controllerWords controller) 2 1)
      tell controller (NotConnected peer reason)
    admit peer transport version features ports left = do
      number <- modifyRef (controllerNumbers controller) $ \case
        Numbers (n : free) next -> (Numbers free next, n)
        Numbers [] next -> (Numbers [] (next + 1), next)
      let info = SwitchInfo (featuresDatapath features) version features ports peer number
          back = modifyRef (controllerNumbers controller) (\(Numbers free next) -> (Numbers (number : free) next, ()))
      ( do
          pool <- readEntry (controllerPools controller) (registrationCapability registration)
          switch <- newSwitch transport pool info (configMailRoom config) (configStall config) (configPatience config) (whileWaiting controller)
          enlist controller switch >>= \case
            False -> do
              -- The error says: connection refused, the other one lives.
              forM_ (encode version 0 (ErrorMessage (ErrorKind 1 5) B.empty)) (sendBytes transport)
              refused peer (HandshakeFailed ("datapath " ++ renderDatapath (infoDatapath info) ++ " is connected already, and alive"))
            True -> serveSwitch controller handlersFor switch left
        )
        `finally` back

-- Count the body of the calling thread, if it is one, as waiting.
whileWaiting :: Controller -> IO a -> IO a
whileWaiting controller act = do
  me <- myThreadId
  bodies <- readRef (controllerBodies controller)
  case Map.lookup me bodies of
    Nothing -> act
    Just ws -> bracket_ (fetchAdd ws WordWaiting 1) (fetchAdd ws WordWaiting (-1)) act

-- Enter a switch into the list. An older connection of the same datapath is asked for a sign of life first.
enlist :: Controller -> Switch -> IO Bool
enlist controller switch = do
  old <- modifyRef (controllerSwitches controller) $ \m -> case Map.lookup datapath m of
    Nothing -> (Map.insert datapath switch m, Nothing)
    Just other -> (m, Just other)
  case old of
    Nothing -> pure True
    Just other -> do
      deadline <- deadlineIn (configProbe (controllerConfig controller))
      requestUntil other deadline (askEcho B.empty) >>= \case
        Right _ -> pure False
        Left _ -> do
          giveUp other Replaced
          replaced <- modifyRef (controllerSwitches controller) $ \m -> case Map.lookup datapath m of
            Just present | present /= other -> (m, False)
            _ -> (Map.insert datapath switch m, True)
          pure replaced
  where
    datapath = infoDatapath (switchInfo switch)

delist :: Controller -> Switch -> IO ()
delist controller switch =
  modifyRef (controllerSwitches controller) (\m -> (Map.update (\s -> if s == switch then Nothing else Just s) (infoDatapath (switchInfo switch)) m, ()))

-- The life of an admitted switch.
serveSwitch :: Controller -> (Controller -> Switch -> IO Handlers) -> Switch -> ByteString -> IO ()
serveSwitch controller handlersFor switch left = do
  void (fetchAdd (controllerWords controller) 0 1)
  down <- newRef (\_ -> pure ())
  outcome <- try $ do
    handlers <- handlersFor controller switch
    writeRef down (onDown handlers)
    tell controller (Connected (switchInfo switch))
    run controller handlers switch left
  -- An asynchronous exception is passed on when all is put in order. When the controller stops, it may come when the
  -- closed connection has ended the messages already; it must not keep the handlers from being told.
  uninterruptibleMask_ $ do
    given <- readRef (switchEnd switch)
    let reason = case outcome of
          Right r -> fromMaybe r given
          Left (e :: SomeException) -> fromMaybe (reasonOf e) given
    modifyRef (switchEnd switch) (\old -> (old <|> Just reason, ()))
    delist controller switch
    takePending switch
    dropOutput switch
    dropInput switch
    counts <- switchCounts switch
    void (fetchAdd (controllerWords controller) 1 1)
    void (fetchAdd (controllerWords controller) 3 (countsPacketIns counts))
    void (fetchAdd (controllerWords controller) 4 (countsMessages counts))
    tell controller (Ended (switchInfo switch) reason)
    ended <- readRef down
    ended reason `catchSync` reportUncaught
  case outcome of
    Left e | isAsynchronous e -> throwIO e
    _ -> pure ()

-- What a handler throws becomes the reason of the end.
reasonOf :: SomeException -> CloseReason
reasonOf e
  | Just reason <- fromException e = reason
  | isAsynchronous e = ControllerStopped
  | otherwise = HandlerFailed (describeException e)

dropInput :: Switch -> IO ()
dropInput switch =
  readRef (switchInput switch) >>= \case
    Empty -> pure ()
    Holding buffer -> do
      writeRef (switchInput switch) Empty
      giveBackInput switch buffer

-- Larger ones are made for a message that does not fit, and are left to the collector.
giveBackInput :: Switch -> Buffer -> IO ()
giveBackInput switch buffer = when (bufferSize buffer == bufferBytes) $ giveBack (switchPool switch) buffer

-- Read and handle until the connection ends. Out of line, so that a parked switch does not keep the frame of its
-- handshake too.
run :: Controller -> Handlers -> Switch -> ByteString -> IO CloseReason
run controller handlers switch left = do
  monotonicNow >>= \(Deadline now) -> writeWord ws WordHeard now
  buffer <- if B.length left > bufferBytes then largeBuffer else inputBuffer
  withBuffer buffer $ \p -> B.unsafeUseAsCStringLen left (\(from, n) -> copyBytes p (castPtr from) n)
  frames buffer 0 (B.length left) True
  where
    ws = switchWords switch
    config = controllerConfig controller
    transport = switchTransport switch
    registration = transportRegistration transport
    version = infoVersion (switchInfo switch)
    versionByteOf = versionByte version

    -- They must not mention the bytes that were left: a parked switch would keep them.
    inputBuffer =
      readRef (switchInput switch) >>= \case
        Holding buffer -> pure buffer
        Empty -> borrow (switchPool switch) >>= holding
    largeBuffer = newBuffer 0x30000 >>= holding
    holding buffer = buffer <$ writeRef (switchInput switch) (Holding buffer)

    -- Handle the frames between start and end; then read on, at once if more may be there.
    frames :: Buffer -> Int -> Int -> Bool -> IO CloseReason
    frames buffer start end more = do
      -- Strict: as a thunk it would be allocated for each frame.
      let !p = bufferPtr buffer `plusPtr` start
      n <- frameLength p (end - start)
      if n > 0
        then do
          v <- viewVersion p
          if v /= versionByteOf
            then broken ("a message of version " ++ show v) (ErrorKind 1 0)
            else do
              handle p n (end - start - n)
              frames buffer (start + n) end more
        else do
          keepAlive buffer
          if n == frameBad
            then broken "a message with a length below 8" (ErrorKind 1 6)
            else refill buffer start end more
    {-# INLINE frames #-}

    -- Move what is left to the front, make room for the whole message, read.
    refill buffer start end more
      | start == end && not more = do
        -- Nothing is left, and the socket was empty: flush and wait without buffers.
        settle
        writeRef (switchInput switch) Empty
        giveBackInput switch buffer
        wait
      | otherwise = do
        let left' = end - start
        when (start > 0 && left' > 0) $ withBuffer buffer $ \p -> moveBytes p (p `plusPtr` start) left'
        size <- if left' >= 4 then fromIntegral <$> withBuffer buffer (`peek16` 2) else pure 0
        buffer' <-
          if max size (left' + 1) <= bufferSize buffer
            then pure buffer
            else do
              larger <- newBuffer 0x18000
              withBuffer larger $ \to -> withBuffer buffer $ \from -> copyBytes to from left'
              writeRef (switchInput switch) (Holding larger)
              giveBackInput switch buffer
              pure larger
        r <- withBuffer buffer' $ \p -> readNow transport (p `plusPtr` left') (bufferSize buffer' - left')
        if r > 0
          then do
            Deadline now <- freshNow registration
            writeWord ws WordHeard now
            writeWord ws WordEchoed 0
            let full = r == bufferSize buffer' - left'
            layered <- holdsInput transport
            -- A buffer-full is a turn: other switches of this core come next.
            when full (void (drainMail switch) >> yield >> allowInterrupt)
            frames buffer' 0 (left' + r) (full || layered)
          else nothing buffer' left' r

    nothing buffer left' r
      | r == 0 = closing SwitchClosed
      | code == EINTR = refill buffer 0 left' True
      | code == EAGAIN = do
        hung <- hungUp registration
        when hung (forgetHangUp registration)
        settle
        if left' == 0
          then do
            writeRef (switchInput switch) Empty
            giveBackInput switch buffer
            wait
          else waitReadable >>= maybe (refill buffer 0 left' True) pure
      | r == ClosedCode = pure ControllerStopped
      | otherwise = closing (ConnectionFailed (describeErrno code))
      where
        code = Errno (negate r)

    wait = waitReadable >>= maybe (inputBuffer >>= \buffer -> refill buffer 0 0 True) pure

    settle = drainMail switch >> flushOutput switch >> dropOutput switch

    -- Wait for input or mail. The answer is why to end.
    waitReadable = do
      heard <- readWord ws WordHeard
      echoed <- readWord ws WordEchoed
      let silentAt = if echoed == 0 then after (configEchoAfter config) (Deadline heard) else after (configDeadAfter config) (Deadline heard)
      -- The manager's clock is enough: it is exact after the wake-up by the deadline.
      now <- freshNow registration
      let late = now >= silentAt
      case () of
        _
          | late && echoed /= 0 -> pure (Just Silent)
          | late -> do
            writeWord ws WordEchoed 1
            _ <- emit switch 0 (EchoRequest B.empty)
            flushOutput switch
            dropOutput switch
            waitReadable
          | otherwise -> do
            waitUntil registration Readable silentAt
            mail <- drainMail switch
            when mail (flushOutput switch >> dropOutput switch)
            pure Nothing

    -- The connection ends for this reason, whether or not the switch takes the last messages.
    closing reason = do
      void (trySync (flushOutput switch))
      pure reason

    broken why kind = do
      _ <- trySync (emit switch 0 (ErrorMessage kind (Char8.pack why)) >> flushOutput switch)
      pure (ProtocolBroken why)

    handle :: Ptr Word8 -> Int -> Int -> IO ()
    handle p n after' = do
      kind <- viewType p
      if kind == typePacketIn
        then do
          let IntPtr address = ptrToIntPtr p
          writeWord ws WordFrame address
          writeWord ws WordFrameSize n
          writeWord ws WordFollowing after'
          count <- readWord ws WordPacketIns
          writeWord ws WordPacketIns (count + 1)
          onPacketIn handlers
        else other kind p n
    {-# INLINE handle #-}

    other kind p n = do
      count <- readWord ws WordMessages
      writeWord ws WordMessages (count + 1)
      if kind == typeEchoRequest
        then do
          bytes <- B.packCStringLen (castPtr p, n)
          emitBytes switch (B.concat [B.take 1 bytes, B.singleton typeEchoReply, B.drop 2 bytes])
        else do
          xid <- viewXid p
          pending <- readRef (switchPending switch)
          case IntMap.lookup (fromIntegral xid) pending of
            Just (Pending arrived) -> do
              bytes <- B.packCStringLen (castPtr p, n)
              done <- arrived (Just bytes)
              when done (removePending switch [xid])
            -- An answer that nobody waits for any more, or the rest of one that was too big, is dropped.
            Nothing -> unless (kind == typeEchoReply || kind == typeHello || xid >= firstOwnXid && answers kind) $ do
              bytes <- B.packCStringLen (castPtr p, n)
              case decode version bytes of
                Right (_, m) -> onMessage handlers xid m
                Left e -> do
                  bad <- readWord ws WordUndecodable
                  writeWord ws WordUndecodable (bad + 1)
                  tell controller (Undecodable (switchInfo switch) e)
                  onMessage handlers xid (MessageRaw kind (B.drop headerBytes bytes))
    {-# NOINLINE other #-}

    -- Features, configuration, statistics, barriers, queues, roles, asynchronous messages.
    answers kind = kind `elem` ([6, 8] ++ case version of OF10 -> [17, 19, 21]; OF13 -> [19, 21, 23, 25, 27])
{-# NOINLINE run #-}

-- | A switch's messages for its body.
data Feed = Feed
  { -- | The switch that the feed is of.
    feedSwitch :: !Switch,
    feedQueue :: !(Channel Input),
    feedOver :: !(Ref (Maybe CloseReason))
  }

-- | An input of a body.
data Input
  = -- | A message that answers none of the controller's requests.
    Received !Xid !Message
  | -- | A message that cannot be decoded: its type and content.
    ReceivedRaw !Xid !Word8 !ByteString
  | -- | The connection has ended; the last of its inputs, and what every later 'recv' gives.
    Down !CloseReason
  deriving stock (Eq, Show)

-- | Handlers that run a body in a thread of its own for each connection. When the connection ends, the body should
-- return after 'Down'; when the controller stops, it is cancelled.
--
-- A body that falls behind by 'configQueue' messages makes the controller stop reading its switch. While the body
-- waits for an answer ('request', 'commit') that would be a deadlock, so packet-ins beyond the queue are then dropped
-- and counted.
directly :: (Feed -> IO ()) -> Controller -> Switch -> IO Handlers
directly body controller switch = do
  queue <- Channel.newUnbounded
  over <- newRef Nothing
  let feed = Feed switch queue over
      most = configQueue (controllerConfig controller)
      bodies = controllerBodies controller
      enrolled act = do
        me <- myThreadId
        bracket_ (modifyRef bodies (\m -> (Map.insert me (switchWords switch) m, ()))) (modifyRef bodies (\m -> (Map.delete me m, ()))) act
  task <- Scope.forkNamed (controllerScope controller) ("openflow/body/" ++ renderDatapath (infoDatapath (switchInfo switch))) $ enrolled (body feed) `catchSync` \e -> giveUp switch (HandlerFailed (describeException e))
  let put droppable input = do
        n <- Channel.pending queue
        if n < most
          then Channel.send queue input
          else do
            waits <- atomicRead (switchWords switch) WordWaiting
            ended <- Scope.tryAwait task
            case ended of
              Just _ -> pure ()
              Nothing
                | waits > 0 && droppable -> void (fetchAdd (switchWords switch) WordDropped 1)
                | waits > 0 && n < 2 * most -> Channel.send queue input
                | waits > 0 -> throwIO (HandlerFailed "its body waits for an answer, and its queue is full")
                | otherwise -> do
                  -- The body is behind: do not read on. It may begin to wait for an answer meanwhile.
                  pause <- deadlineIn (milliseconds 5)
                  pauseUntil (transportRegistration (switchTransport switch)) pause
                  closed <- isClosing (transportRegistration (switchTransport switch))
                  when closed (throwIO ControllerStopped)
                  put droppable input
  pure
    Handlers
      { onPacketIn = withFrame switch $ \p n -> do
          bytes <- B.packCStringLen (castPtr p, n)
          xid <- viewXid p
          case decode (infoVersion (switchInfo switch)) bytes of
            Right (_, m) -> put True (Received xid m)
            Left _ -> put True (ReceivedRaw xid typePacketIn (B.drop headerBytes bytes)),
        onMessage = \xid m -> put False $ case m of
          MessageRaw kind bytes -> ReceivedRaw xid kind bytes
          _ -> Received xid m,
        onDown = \reason -> do
          writeRef over (Just reason)
          Channel.send queue (Down reason)
          -- A body that looks at its feed ends by itself.
          deadline <- deadlineIn (seconds 2)
          finished <- if reason == ControllerStopped then pure Nothing else Scope.awaitUntil task deadline
          maybe (Scope.cancel task) pure finished
      }

-- | The next input.
--
-- [Cost]: that of a queue.
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Threads]: the body's.
recv :: Feed -> IO Input
recv feed = recvUntil feed never >>= maybe (recv feed) pure

-- | 'recv', or 'Nothing' at the deadline.
--
-- [Blocks]: parks.
-- [Threads]: the body's.
recvUntil :: Feed -> Deadline -> IO (Maybe Input)
recvUntil feed deadline =
  Channel.tryRecv (feedQueue feed) >>= \case
    Just input -> pure (Just input)
    Nothing ->
      readRef (feedOver feed) >>= \case
        -- The Down of the queue is taken first; this is for all calls after it.
        Just reason -> maybe (Just (Down reason)) Just <$> Channel.tryRecv (feedQueue feed)
        Nothing -> Channel.recvUntil (feedQueue feed) deadline
