-- |
-- Module      : Heddle.IO.Connection
-- Description : Connections, answering with types
-- Stability   : hidden; "Heddle.IO" exports it
--
-- A 'Conn' is a registration and what to do when it closes. Every wait has a deadline and returns
-- a value; a call throws only what the kernel refuses.
--
-- Cost: that of "Heddle.IO.Internal.Transfer"; results are allocated.
-- Owner: any thread may read, write and close. Those that read (or write) one connection
-- take turns ("Heddle.IO.Internal.TicketLock"), each by its own deadline.
module Heddle.IO.Connection
  ( Conn (..),
    connectionOf,
    ConnectError (..),
    connectUntil,
    register,
    adopt,
    deregister,
    Wake (..),
    readableUntil,
    writableUntil,
    unpark,
    RecvResult (..),
    recvIntoUntil,
    recvUntil,
    SendResult (..),
    sendAllUntil,
    sendVUntil,
    touchUntil,
    close,
    isOpen,
    peerAddress,
    localAddress,
    failedOn,
    held,
  )
where

import Control.Monad (unless, void, when)
import Data.Bits ((.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Short qualified as Short
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Foldable (for_)
import Data.Int (Int32)
import Data.IntMap.Strict qualified as IntMap
import Data.Word (Word32, Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peek, poke)
import Heddle.IO.Internal.Address
import Heddle.IO.Internal.Exception (HeddleIOException (..), fromHeddleIO)
import Heddle.IO.Internal.Manager
import Heddle.IO.Internal.PooledTimer (isOver, sleepOn)
import Heddle.IO.Internal.Registration
import Heddle.IO.Internal.Runtime
import Heddle.IO.Internal.TicketLock
import Heddle.IO.Internal.Transfer (IOClosed (..), pieceBytes, pokePiece, sendVectorWith)
import Heddle.IO.Internal.Types
import Heddle.Prim.Atomic
import Heddle.Prim.Buffer (borrow, bufferPtr, bufferSize, giveBack, keepAlive)
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.File (closeFile)
import Heddle.Prim.Keeper (Keeper, keeping)
import Heddle.Prim.Lock (withLock)
import Heddle.Prim.Poller
import Heddle.Prim.Socket qualified as S
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, reset)
import Heddle.Prim.WaitCell qualified as Cell
import Network.Socket qualified as Network
import System.Posix.Types (Fd)

-- | A registered descriptor: a connection, a pipe, a terminal, a pidfd.
data Conn = Conn
  { connRegistration :: !Registration,
    -- | recv and send work on it; read and write are used otherwise.
    connSocket :: !Bool,
    -- | For a descriptor from outside: where it goes.
    connCustody :: !(Maybe Custody),
    -- | For a socket of "Heddle.Socket": closes it when nothing refers to it any more.
    connKeeper :: !(Maybe Keeper)
  }

instance Eq Conn where
  a == b = registrationRead (connRegistration a) == registrationRead (connRegistration b)

instance Show Conn where
  show conn = "connection on descriptor " ++ show (registrationFd (connRegistration conn))

-- | Word 0: 0 undecided, 1 goes back ('deregister'), 2 closed (by the registration's release),
-- 3 lost (the number is another file's). The first thread to change it decides. The cell gets
-- a token when the runtime no longer uses a descriptor that goes back.
data Custody = Custody !Words !WaitCell

-- | A socket's registration as a connection of "Heddle.IO". Its calls take turns with each
-- other, not with those of "Heddle.IO.Registration".
--
-- [Cost]: O(1).
connectionOf :: Registration -> Conn
connectionOf registration = Conn registration True Nothing Nothing
{-# INLINE connectionOf #-}

-- | Why connecting failed.
data ConnectError
  = -- | The deadline passed first.
    ConnectTimedOut !Network.SockAddr
  | -- | The system refused: ECONNREFUSED, ENETUNREACH, ENOENT, EMFILE…
    ConnectFailed !Network.SockAddr !Errno
  deriving stock (Eq, Show)

instance Exception ConnectError where
  toException = toException . HeddleIOException
  fromException = fromHeddleIO
  displayException = \case
    ConnectTimedOut address ->
      "cannot connect to " ++ renderAddress address ++ ": no answer before the deadline.\n  Is the address right, and does a firewall let it through?"
    ConnectFailed address e ->
      "cannot connect to " ++ renderAddress address ++ ": " ++ describeErrno e ++ "." ++ advice e
    where
      advice e
        | e == ECONNREFUSED = "\n  Does a server listen there?"
        | e == EMFILE || e == ENFILE = "\n  Close descriptors, or raise the limit (ulimit -n)."
        | otherwise = ""

-- | Connect a stream socket. Small segments are sent at once (TCP_NODELAY).
--
-- [Cost]: four system calls.
-- [Blocks]: parks; a Unix socket's path lookup holds an OS thread for a moment.
-- [Masking]: interruptible; the socket is then closed.
-- [Throws]: 'IOError' when the runtime has stopped.
connectUntil :: Runtime -> Network.SockAddr -> Deadline -> IO (Either ConnectError Conn)
connectUntil runtime address deadline = mask_ $ do
  m <- managerHere runtime
  r <- S.socket (familyOf address) S.TypeStream 0
  if r < 0
    then pure (failed r)
    else do
      let fd = fromIntegral r
      case address of
        Network.SockAddrUnix _ -> pure ()
        _ -> void (S.setOption fd S.NoDelay 1)
      begin m fd (milliseconds 1) `onException` S.closeSocket fd >>= \case
        Left e -> Left e <$ S.closeSocket fd
        Right () -> do
          peer <- withAddress address peerBytes
          registration <- newRegistration m Owned fd peer Attached (\_ -> pure ()) `onException` S.closeSocket fd
          finish registration `onException` closeRegistration registration
  where
    failed :: Int -> Either ConnectError a
    failed r = Left (ConnectFailed address (Errno (negate r)))
    begin m fd backOff = do
      r <- withAddress address (S.connect fd)
      let e = Errno (negate r)
      if r >= 0 || e == EINPROGRESS || e == EINTR
        then pure (Right ())
        else
          if e /= EAGAIN
            then pure (failed r)
            else do
              -- A Unix listener whose queue is full, for which nothing can be waited.
              over <- isOver deadline
              if over
                then pure (Left (ConnectTimedOut address))
                else do
                  next <- deadlineIn backOff
                  sleepOn m (min deadline next)
                  begin m fd (min (milliseconds 50) (backOff <> backOff))
    finish registration = do
      _ <- reset (registrationWrite registration)
      r <- using registration (`pollOne` eventOut)
      case () of
        _
          | r == 0 -> do
            over <- isOver deadline
            if over
              then Left (ConnectTimedOut address) <$ closeRegistration registration
              else waitUntil registration Writable deadline >> finish registration
          | r == ClosedCode -> throwIO (IOClosed ("connect to " ++ renderAddress address))
          | Errno (negate r) == EINTR -> finish registration
          | otherwise -> do
            e <- using registration S.pendingError
            if e == 0
              then pure (Right (connectionOf registration))
              else failed (negate (abs e)) <$ closeRegistration registration

-- | Register a descriptor from outside, which becomes non-blocking. 'close' closes it,
-- 'deregister' gives it back.
--
-- [Cost]: four system calls.
-- [Blocks]: never.
-- [Throws]: 'IOError': EPERM for a regular file or a directory, EEXIST for one that is
-- registered with this runtime, EBADF.
register :: Runtime -> Fd -> IO Conn
register runtime fd = registerWith runtime fd $ do
  kind <- S.getOption fd S.SocketKind
  void (if kind >= 0 then S.closeSocket fd else closeFile fd)

-- | Register a socket of the network package. The connection keeps it alive, and closes
-- it through 'Network.close'; from now on use the connection only.
--
-- [Throws]: as 'register'.
adopt :: Runtime -> Network.Socket -> IO Conn
adopt runtime socket = Network.withFdSocket socket $ \fd ->
  -- close takes locks of GHC's own manager, and must not be interrupted there.
  registerWith runtime (fromIntegral fd) (uninterruptibleMask_ (Network.close socket))

registerWith :: Runtime -> Fd -> IO () -> IO Conn
registerWith runtime fd closing = mask_ $ do
  m <- managerHere runtime
  kind <- S.getOption fd S.SocketKind
  decision <- newWords 1
  released <- newWaitCell
  let release = do
        lost <- atomicRead decision 0
        unless (lost == 3) $ modifyRef (runtimeForeign runtime) (\old -> (IntMap.delete key old, ()))
        ours <- compareAndSet decision 0 0 2
        -- It is no file, so closing it tells of no lost data.
        if ours then void (trySync closing) else Cell.unpark released
  withLock (runtimeForeignLock runtime) $ do
    known <- IntMap.lookup key <$> readRef (runtimeForeign runtime)
    for_ known $ \entry -> do
      lost <- registerAgain (case entry of Registered registration _ -> registration; Shared _ registration -> registration)
      if lost then disown runtime fd else throwErrnoFor what EEXIST
    _ <- checked what (S.setNonBlocking fd)
    registration <- newRegistration m (Lent release) fd mempty Attached (\_ -> pure ())
    let giveUp = compareAndSet decision 0 0 3 >> void (closeRegistration registration)
    modifyRef (runtimeForeign runtime) (\old -> (IntMap.insert key (Registered registration giveUp) old, ()))
    pure (Conn registration (kind >= 0) (Just (Custody decision released)) Nothing)
  where
    key = fromIntegral fd
    what = "register descriptor " ++ show fd

-- | Give a registered descriptor back, open: the connection is closed, its waits end, and
-- no system call uses it. 'Nothing' if it was closed before, or if the runtime made it. The
-- descriptor of an adopted socket goes back to that socket, through which it must be closed.
--
-- [Blocks]: until the system calls in flight have returned.
-- [Masking]: not interruptible, so that the descriptor cannot get lost.
deregister :: Conn -> IO (Maybe Fd)
deregister conn = case connCustody conn of
  Nothing -> pure Nothing
  Just (Custody decision released) -> uninterruptibleMask_ $ do
    won <- compareAndSet decision 0 0 1
    if won
      then do
        _ <- closeRegistration (connRegistration conn)
        Just (registrationFd (connRegistration conn)) <$ park released
      else pure Nothing

-- | Why a wait for readiness ended.
data Wake
  = -- | There is something to do.
    Ready
  | -- | The peer has hung up, or an error is pending: reading does not wait any more. Read
    -- on; bytes may be left before the end.
    HungUp
  | -- | The deadline has passed.
    Late
  | -- | Another thread called 'unpark'.
    Unparked
  | -- | The connection is closed.
    Gone
  deriving stock (Eq, Show)

-- | Park until something can be read, so that the caller holds no buffer meanwhile.
--
-- [Cost]: one system call before, and one after each park.
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Throws]: 'IOError'.
-- [Threads]: any number; they take turns.
readableUntil :: Conn -> Deadline -> IO Wake
readableUntil = readyUntil Readable (eventIn .|. eventReadHangUp)

-- | Park until something can be written.
--
-- [Cost]: one system call before, and one after each park.
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Throws]: 'IOError'.
-- [Threads]: any number; they take turns, and what one call sends stays whole.
writableUntil :: Conn -> Deadline -> IO Wake
writableUntil = readyUntil Writable eventOut

readyUntil :: Interest -> Word32 -> Conn -> Deadline -> IO Wake
readyUntil interest bits conn deadline = held conn . mask_ $ do
  entered <- lockDirection registration interest deadline
  if entered
    then (go `onException` unlockDirection registration interest) >>= \wake -> wake <$ unlockDirection registration interest
    else pure Late
  where
    registration = connRegistration conn
    cell = cellOf registration interest
    go = do
      _ <- reset cell
      -- After the reset: 'unpark' sets the mark first and then leaves its token.
      asked <- if interest == Readable then compareAndSet (registrationWords registration) RegistrationUnparked 1 0 else pure False
      if asked then pure Unparked else look
    look = do
      r <- using registration (`pollOne` bits)
      case () of
        _
          | r == ClosedCode -> Gone <$ Cell.unpark cell
          | r < 0 && Errno (negate r) == EINTR -> go
          | r < 0 -> failedOn "wait on" conn r
          | r == 0 -> do
            over <- isOver deadline
            if over
              then pure Late
              else do
                -- poll denies an old hang-up or error: do not spin on it.
                when (interest == Readable) (forgetHangUp registration)
                waitUntil registration interest deadline
                go
          | fromIntegral r .&. (eventReadHangUp .|. eventHangUp .|. eventError) /= 0 -> pure HungUp
          | otherwise -> pure Ready

-- A call on the connection, which the collector must not close meanwhile.
held :: Conn -> IO a -> IO a
held conn = maybe id keeping (connKeeper conn)
{-# INLINE held #-}

-- | End the 'readableUntil' that waits now, or else the next one, with 'Unparked'.
--
-- [Cost]: O(1).
-- [Blocks]: never.
-- [Threads]: any.
unpark :: Conn -> IO ()
unpark conn = do
  atomicWrite (registrationWords (connRegistration conn)) RegistrationUnparked 1
  Cell.unpark (registrationRead (connRegistration conn))

-- | The result of receiving.
data RecvResult a
  = -- | The number of bytes, or the bytes; at least one.
    Got !a
  | -- | The peer has sent everything.
    Eof
  | -- | Nothing came before the deadline.
    TimedOut
  | -- | The connection was closed on this side.
    Closed
  deriving stock (Eq, Show)

-- | @recvIntoUntil conn pointer count deadline@ receives at least one byte and at most
-- @count@, to an address.
--
-- [Cost]: one system call and about 20 ns, if it need not park.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
-- [Throws]: 'IOError': EINVAL for a length below 1, ECONNRESET, ETIMEDOUT of the peer.
-- [Units]: bytes.
-- [Threads]: any number; they take turns.
recvIntoUntil :: Conn -> Ptr Word8 -> Int -> Deadline -> IO (RecvResult Int)
recvIntoUntil conn p n deadline = do
  atLeastOne "recvIntoUntil" n
  r <- held conn . attemptLocked (connRegistration conn) Readable deadline $ \fd ->
    if connSocket conn then S.recv fd p n else S.readFd fd p n
  if r > 0 then pure (Got r) else noBytes conn r

noBytes :: Conn -> Int -> IO (RecvResult a)
noBytes conn r
  | r == 0 = pure Eof
  | r == TimedOutCode = pure TimedOut
  | r == ClosedCode = pure Closed
  | otherwise = failedOn "receive on" conn r

atLeastOne :: String -> Int -> IO ()
atLeastOne what n = when (n < 1) $ throwErrnoFor (what ++ " with length " ++ show n ++ ", which must be at least 1") EINVAL

-- | @recvUntil conn count deadline@ receives at least one byte and at most @count@ (or
-- 32 KiB). The thread owns no buffer while it is parked; the bytes are copied out of a
-- borrowed one.
--
-- [Cost]: as 'recvIntoUntil', and a copy.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
-- [Throws]: 'IOError': EINVAL for a length below 1, ECONNRESET, ETIMEDOUT of the peer.
-- [Units]: bytes.
-- [Threads]: any number; they take turns.
recvUntil :: Conn -> Int -> Deadline -> IO (RecvResult ByteString)
recvUntil conn n deadline = do
  atLeastOne "recvUntil" n
  out <- newRef B.empty
  r <- held conn . attemptLocked registration Readable deadline $ \fd -> do
    -- Runs masked and does not park: the buffer comes back.
    buffer <- borrow pool
    let p = bufferPtr buffer
        room = min n (bufferSize buffer)
    r <- if connSocket conn then S.recv fd p room else S.readFd fd p room
    when (r > 0) (B.packCStringLen (castPtr p, r) >>= writeRef out)
    keepAlive buffer
    giveBack pool buffer
    pure r
  if r > 0 then Got <$> readRef out else noBytes conn r
  where
    registration = connRegistration conn
    pool = managerBuffers (registrationManager registration)

-- | The result of sending. A failure has the number of bytes that the kernel had accepted.
data SendResult
  = -- | All of it.
    Sent
  | -- | The number of bytes sent before the deadline.
    SendTimedOut !Int
  | -- | The number of bytes sent before the connection was closed on this side.
    SendClosed !Int
  deriving stock (Eq, Show)

-- | Send all bytes.
--
-- [Cost]: one system call and about 20 ns, if it need not park.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked; how much went is then unknown.
-- [Throws]: 'IOError' that says how much went: EPIPE, ECONNRESET.
-- [Threads]: any number; they take turns, and what one call sends stays whole.
sendAllUntil :: Conn -> ByteString -> Deadline -> IO SendResult
sendAllUntil conn bytes deadline
  | B.null bytes = nothingToSend conn
  | otherwise = held conn . unsafeUseAsCStringLen bytes $ \(p, n) ->
    withDirection
      registration
      Writable
      deadline
      (pure (SendTimedOut 0))
      (tryOnce registration Writable (sending (castPtr p) n))
      (\r -> if r >= n then Just Sent else Nothing)
      (\r -> if r > 0 then go (castPtr p `plusPtr` r) (n - r) r else retryUntil registration Writable deadline (sending (castPtr p) n) r >>= went (castPtr p) n 0)
  where
    registration = connRegistration conn
    sending p left fd = if connSocket conn then S.send fd p left else S.writeFd fd p left
    go :: Ptr Word8 -> Int -> Int -> IO SendResult
    go p left done = attempt registration Writable deadline (sending p left) >>= went p left done
    went p left done r
      | r >= left = pure Sent
      | r >= 0 = go (p `plusPtr` r) (left - r) (done + r)
      | otherwise = notSent conn r done (B.length bytes)

nothingToSend :: Conn -> IO SendResult
nothingToSend conn = (\closed -> if closed then SendClosed 0 else Sent) <$> isClosing (connRegistration conn)

notSent :: Conn -> Int -> Int -> Int -> IO SendResult
notSent conn r done total
  | r == TimedOutCode = pure (SendTimedOut done)
  | r == ClosedCode = pure (SendClosed done)
  | otherwise = failedOn ("send (" ++ show done ++ " of " ++ show total ++ " bytes went) on") conn r

-- | Send all bytes of all strings, in as few system calls as the kernel allows.
--
-- [Cost]: one system call for every 256 strings, 16 bytes a string.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked; how much went is then unknown.
-- [Throws]: 'IOError' that says how much went: EPIPE, ECONNRESET.
-- [Threads]: any number; they take turns, and what one call sends stays whole.
sendVUntil :: Conn -> [ByteString] -> Deadline -> IO SendResult
sendVUntil conn strings deadline
  | not (connSocket conn) = sendAllUntil conn (B.concat strings) deadline
  | null full = nothingToSend conn
  | otherwise = held conn $ withDirection (connRegistration conn) Writable deadline (pure (SendTimedOut 0)) (pure 0) (const Nothing) (pieces full)
  where
    full = filter (not . B.null) strings
    total = sum (map B.length full)
    pieces [] _ = pure Sent
    pieces rest done = do
      let (now, later) = splitAt 256 rest
      vectorUntil conn now total deadline done >>= \case
        Sent -> pieces later (done + sum (map B.length now))
        other -> pure other

vectorUntil :: Conn -> [ByteString] -> Int -> Deadline -> Int -> IO SendResult
vectorUntil conn strings total deadline before = allocaBytes (pieceBytes * length strings) $ \vector -> fill vector 0 strings
  where
    fill vector count [] =
      sendVectorWith (connRegistration conn) vector count deadline $ \code sent ->
        if code < 0 then notSent conn code (before + sent) total else pure Sent
    fill vector index (b : rest) = unsafeUseAsCStringLen b $ \(p, n) -> do
      pokePiece vector index (castPtr p) n
      fill vector (index + 1) rest

-- | Move the deadline of the read that waits now: it will not be woken before. An earlier
-- deadline wakes it earlier, which its own deadline then judges.
--
-- [Cost]: one store for a later deadline.
-- [Blocks]: never.
-- [Threads]: any.
touchUntil :: Conn -> Deadline -> IO ()
touchUntil conn = armUntil (connRegistration conn) Readable

-- | Close: no system call begins after this, every wait ends, and the descriptor is closed
-- now or by the last call in flight. Idempotent.
--
-- [Cost]: one system call.
-- [Blocks]: never.
-- [Threads]: any.
close :: Conn -> IO ()
close = void . closeRegistration . connRegistration

-- | Whether the connection has not been closed on this side.
--
-- [Cost]: one read.
isOpen :: Conn -> IO Bool
isOpen conn = not <$> isClosing (connRegistration conn)

-- | The peer's address; 'Nothing' if it has none.
--
-- [Cost]: a copy; a system call if the connection was registered.
-- [Throws]: 'IOClosed', 'IOError'.
peerAddress :: Conn -> IO (Maybe Network.SockAddr)
peerAddress conn
  | Short.null known = askName conn S.peerName
  | otherwise = decodeAddress known
  where
    known = registrationPeer (connRegistration conn)

-- | This side's address; 'Nothing' if it has none.
--
-- [Cost]: one system call.
-- [Throws]: 'IOClosed', 'IOError'.
localAddress :: Conn -> IO (Maybe Network.SockAddr)
localAddress conn = askName conn S.localName

askName :: Conn -> (Fd -> Ptr () -> Ptr Int32 -> IO Int) -> IO (Maybe Network.SockAddr)
askName conn call = held conn . allocaBytes addressRoom $ \p -> allocaBytes 4 $ \size -> do
  poke size (fromIntegral addressRoom)
  r <- using (connRegistration conn) (\fd -> call fd p size)
  if r < 0
    then
      if Errno (negate r) `elem` [ENOTSOCK, ENOTCONN]
        then pure Nothing
        else failedOn "ask for the address of" conn r
    else do
      n <- peek size
      peerBytes p (fromIntegral n) >>= decodeAddress

-- | Throw what a negative answer means, naming the connection.
failedOn :: String -> Conn -> Int -> IO a
failedOn what conn code
  | code == ClosedCode = throwIO (IOClosed (what ++ " " ++ show conn))
  | otherwise = do
    peer <- decodeAddress (registrationPeer (connRegistration conn))
    throwErrnoFor (what ++ " " ++ show conn ++ maybe "" ((" with " ++) . renderAddress) peer) (Errno (negate code))
