{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Serve.LogSink
-- Description : An open log: a file that rotates, a syslog daemon, the journal
-- Stability   : internal, exempt from the version policy
--
-- A file gets whole lines by write(2) with O_APPEND. When it has reached its size, or its day is over, it is renamed to FILE.1
-- before the next lines, FILE.1 to FILE.2 and so on. A daemon gets a datagram for each line.
--
-- Cost: for a file one system call for many lines; for a daemon one for each line.
-- Owner: one thread, which may be stuck in a write; 'closeSink' is for the same thread.
module Heddle.Serve.LogSink
  ( LogSink,
    openSink,
    closeSink,
    reopenSink,
    writeLines,
    writeLinesNoting,
    sinkName,
    sinkTargetOf,
    SinkPlace (..),
    sinkFile,
    noteFile,

    -- * Rotation
    Rotation (..),
    noRotation,
    parseRotateAt,
    RotateAt (..),
  )
where

import Control.Monad (unless, void, when)
import Data.Bits (shiftL)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal qualified as BI (create)
import Data.ByteString.Unsafe (unsafePackCStringLen, unsafeUseAsCStringLen)
import Data.Char (isDigit, toLower)
import Data.Foldable (for_)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Bytes.HttpDate (logTimeLength, pokeLogTime)
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.File
import Heddle.Serve.FileName (fileNameBytes)
import Heddle.Serve.IsoTime (isoFromLogTime)
import Heddle.Serve.Listen
import Heddle.Serve.LogTarget
import Network.Socket (Family (..), SockAddr (..), SocketType (..), close, connect, defaultProtocol, socket, withFdSocket)
import System.IO (SeekMode (..))
import System.Posix.Files (deviceID, fileID, fileSize, getFdStatus, getFileStatus, isRegularFile, modificationTime, rename)
import System.Posix.IO (FdOption (CloseOnExec, NonBlockingRead), dup, fdSeek, setFdOption)
import System.Posix.Process (getProcessID)
import System.Posix.Types (Fd)
import System.Posix.Unistd (getSystemID, nodeName)

-- | An open log.
data LogSink = LogSink
  { sinkTarget :: !LogTarget,
    sinkRotation :: !Rotation,
    sinkFd :: !(Ref Fd),
    -- | See the @Sink…@ patterns.
    sinkWords :: !Words,
    -- | This process's number and the machine's name.
    sinkProcess :: !(ByteString, ByteString)
  }

pattern SinkSize, SinkPeriod, SinkTorn, SinkDevice, SinkInode :: Int
-- The file's size, as far as this process knows: where its last write ended.
pattern SinkSize = 0
-- The period in which the file was last written.
pattern SinkPeriod = 1
-- 1: the file ends in an incomplete line.
pattern SinkTorn = 2
-- The number of the open file's device, and its own; 0 of what is no regular file.
pattern SinkDevice = 3
pattern SinkInode = 4

-- | When a file is replaced by a new one, and how many old ones are kept.
data Rotation = Rotation
  { rotateAt :: !(Maybe RotateAt),
    rotateKeep :: !Int
  }
  deriving stock (Eq, Show)

-- | Never by this program.
noRotation :: Rotation
noRotation = Rotation Nothing 10

-- | When a file is full.
data RotateAt
  = -- | Before it would have more bytes.
    AtSize !Int
  | -- | At the first line of a new period of this many seconds, counted from midnight of local time, and for weeks from Monday.
    AtTime !Int
  deriving stock (Eq, Show)

-- | A size such as @100M@, or a time such as @12h@, @1d@ or @1w@.
parseRotateAt :: String -> Either String RotateAt
parseRotateAt text = case span isDigit text of
  (digits, unit)
    | not (null digits),
      length digits <= 9,
      n <- read digits :: Int,
      n >= 1 -> case map toLower unit of
      "k" -> Right (AtSize (n `shiftL` 10))
      "m" | unit == "M" -> Right (AtSize (n `shiftL` 20))
      "g" -> Right (AtSize (n `shiftL` 30))
      "min" -> Right (AtTime (60 * n))
      "h" -> Right (AtTime (3600 * n))
      "d" -> Right (AtTime (86400 * n))
      "w" -> Right (AtTime (604800 * n))
      "" -> Right (AtSize n)
      _ -> wrong
  _ -> wrong
  where
    wrong = Left ("'" ++ text ++ "' is neither a size such as 100M nor a time such as 30min, 12h, 1d or 1w")

-- | Where a write goes: the file's device and number, and its size, or less if another process has appended to it since this one's
-- last write.
data SinkPlace = SinkPlace !Int64 !Int64 !Int64
  deriving stock (Eq, Show)

-- | The open descriptor and the name of a regular file.
sinkFile :: LogSink -> IO (Maybe (Fd, FilePath))
sinkFile sink = case sinkTarget sink of
  LogFile path -> do
    inode <- readWord (sinkWords sink) SinkInode
    if inode == 0 then pure Nothing else (\fd -> Just (fd, path)) <$> readRef (sinkFd sink)
  _ -> pure Nothing

-- | For messages.
sinkName :: LogSink -> String
sinkName = renderLogTarget . sinkTarget

-- | Target that was opened.
sinkTargetOf :: LogSink -> LogTarget
sinkTargetOf = sinkTarget

-- | Open a log. The action wraps the opening.
--
-- [Blocks]: holds an OS thread.
-- [Throws]: 'IOError': of the file, or of a daemon's socket that is not there; ENXIO for a FIFO without a reader.
openSink :: (IO Fd -> IO Fd) -> Rotation -> LogTarget -> IO LogSink
openSink wrap rotation target = do
  pid <- getProcessID
  machine <- nodeName <$> getSystemID
  fd <- case target of
    LogOutput -> pure 1
    _ -> wrap (openTarget target)
  sink <- (\ref ws -> LogSink target rotation ref ws (C.pack (show pid), C.pack (map (\c -> if c > ' ' && c < '\DEL' then c else '-') machine))) <$> newRef fd <*> newWords 5
  sink <$ noteFile sink

openTarget :: LogTarget -> IO Fd
openTarget = \case
  LogOutput -> pure 1
  LogFile path -> do
    name <- fileNameBytes path
    fd <- fromIntegral <$> checked path (openFile name appendCreate)
    -- Opening must not wait for a FIFO's reader; the writer's writes may.
    fd <$ setFdOption fd NonBlockingRead False `onException` closeFile fd
  LogJournald path -> datagrams AF_UNIX (SockAddrUnix path)
  LogSyslog _ SyslogLocal -> datagrams AF_UNIX (SockAddrUnix "/dev/log")
  LogSyslog _ (SyslogUnix path) -> datagrams AF_UNIX (SockAddrUnix path)
  LogSyslog _ (SyslogUdp host port) ->
    resolveListen (ListenHost host port) >>= \case
      Right (address@SockAddrInet {} : _) -> datagrams AF_INET address
      Right (address : _) -> datagrams AF_INET6 address
      _ -> throwIO (userError ("the name " ++ host ++ " is unknown"))
  where
    datagrams family address = bracket (socket family Datagram defaultProtocol) close $ \s -> do
      connect s address
      -- A blocking descriptor of its own: a write waits for the daemon, as one to a file waits for the disk.
      fd <- withFdSocket s (dup . fromIntegral)
      fd <$ (setFdOption fd CloseOnExec True >> setFdOption fd NonBlockingRead False) `onException` closeFile fd

-- | Close it, unless it is standard output.
closeSink :: LogSink -> IO ()
closeSink sink = unless (sinkTarget sink == LogOutput) $ readRef (sinkFd sink) >>= void . closeFile

-- | Open the file again, which may have been moved away, or the daemon's socket. The old one is used on if that fails.
--
-- [Throws]: 'IOError'.
reopenSink :: LogSink -> IO ()
reopenSink sink = unless (sinkTarget sink == LogOutput) $ do
  fd <- openTarget (sinkTarget sink)
  old <- readRef (sinkFd sink)
  writeRef (sinkFd sink) fd
  writeWord (sinkWords sink) SinkTorn 0
  _ <- closeFile old
  noteFile sink

-- | Learn what the open file holds already: its size, and the period of its last line.
noteFile :: LogSink -> IO ()
noteFile sink = when (isFile sink) $ do
  fd <- readRef (sinkFd sink)
  status <- trySync (getFdStatus fd)
  for_ status $ \s -> do
    writeWord (sinkWords sink) SinkDevice (fromIntegral (deviceID s))
    writeWord (sinkWords sink) SinkInode (if isRegularFile s then fromIntegral (fileID s) else 0)
    writeWord (sinkWords sink) SinkSize (if isRegularFile s then fromIntegral (fileSize s) else 0)
    period <- periodOf sink (if isRegularFile s && fileSize s > 0 then Just (truncate (toRational (modificationTime s))) else Nothing)
    writeWord (sinkWords sink) SinkPeriod period

isFile :: LogSink -> Bool
isFile sink = case sinkTarget sink of
  LogFile _ -> True
  _ -> False

-- The number of the period of a time, or of now.
periodOf :: LogSink -> Maybe Int64 -> IO Int
periodOf sink given = case rotateAt (sinkRotation sink) of
  Just (AtTime period) -> do
    now <- maybe epochNow (pure . EpochSeconds) given
    ahead <- utcOffsetMinutes now
    -- The epoch began on a Thursday.
    let local = fromIntegral (epochSeconds now) + 60 * ahead + 259200
    pure (local `div` period)
  _ -> pure 0

-- | Write whole lines: how many bytes of them the target has taken, and what hindered it from taking the rest.
--
-- [Blocks]: holds an OS thread.
writeLines :: LogSink -> (String -> IO ()) -> Severity -> Ptr Word8 -> Int -> IO (Int, Maybe Errno)
writeLines sink = writeLinesNoting sink (\_ -> pure ())

-- | The same; the action is called before lines go to a regular file, with where they go.
writeLinesNoting :: LogSink -> (SinkPlace -> IO ()) -> (String -> IO ()) -> Severity -> Ptr Word8 -> Int -> IO (Int, Maybe Errno)
writeLinesNoting sink noting tell severity p n = case sinkTarget sink of
  LogOutput -> toFile sink noting p n
  LogFile path -> rotateFor sink tell path n >> toFile sink noting p n
  LogSyslog facility place -> prefixOf sink facility severity place >>= \prefix -> toDaemon sink prefix p n
  LogJournald _ -> toDaemon sink ("PRIORITY=" <> C.pack (show (severityNumber severity)) <> "\nSYSLOG_IDENTIFIER=heddle\nMESSAGE=") p n

-- If a failure left an incomplete line in the file, the next write begins with a newline.
toFile :: LogSink -> (SinkPlace -> IO ()) -> Ptr Word8 -> Int -> IO (Int, Maybe Errno)
toFile sink noting p n = do
  fd <- readRef (sinkFd sink)
  torn <- readWord ws SinkTorn
  when (torn == 1) $ do
    r <- unsafeUseAsCStringLen "\n" (\(line, _) -> writeWhole fd (castPtr line) 1)
    when (r == 1) (writeWord ws SinkTorn 0)
  inode <- readWord ws SinkInode
  when (inode /= 0) $ do
    device <- readWord ws SinkDevice
    size <- readWord ws SinkSize
    noting (SinkPlace (fromIntegral device) (fromIntegral inode) (fromIntegral size))
  let step done
        | done >= n = pure (n, Nothing)
        | otherwise = do
          r <- writeWhole fd (p `plusPtr` done) (n - done)
          if r > 0
            then step (done + r)
            else case Errno (negate r) of
              EINTR -> step done
              e -> do
                text <- unsafePackCStringLen (castPtr p, done)
                when (done > 0 && C.last text /= '\n') (writeWord ws SinkTorn 1)
                pure (done, Just e)
  (done, failed) <- step 0
  size <- readWord ws SinkSize
  -- With O_APPEND the offset is where this write ended, after what other processes have appended.
  end <- if inode /= 0 && done > 0 then trySync (fdSeek fd RelativeSeek 0) else pure (Right 0)
  (done, failed) <$ writeWord ws SinkSize (either (const (size + done)) (\at -> if at > 0 then fromIntegral at else size + done) end)
  where
    ws = sinkWords sink

toDaemon :: LogSink -> ByteString -> Ptr Word8 -> Int -> IO (Int, Maybe Errno)
toDaemon sink prefix p n = do
  text <- unsafePackCStringLen (castPtr p, n)
  go Nothing 0 text
  where
    go refused done text = case C.elemIndex '\n' text of
      Nothing -> pure (n, Nothing)
      Just end -> do
        fd <- readRef (sinkFd sink)
        r <- unsafeUseAsCStringLen (prefix <> B.take end text) (\(q, size) -> writeWhole fd (castPtr q) size)
        if r >= 0
          then go Nothing (done + end + 1) (B.drop (end + 1) text)
          else case Errno (negate r) of
            EINTR -> go refused done text
            -- The daemon may have been started again, with a new socket.
            e -> case refused of
              Nothing -> trySync (reopenSink sink) >> go (Just e) done text
              Just first -> pure (done, Just first)

-- What comes before each line of a syslog message.
prefixOf :: LogSink -> Int -> Severity -> SyslogPlace -> IO ByteString
prefixOf sink facility severity place = do
  now <- epochNow
  ahead <- utcOffsetMinutes now
  local <- BI.create logTimeLength (\p -> void (pokeLogTime p now ahead))
  let (pid, machine) = sinkProcess sink
      priority = "<" <> C.pack (show (8 * facility + severityNumber severity)) <> ">"
      day = if C.index local 0 == '0' then " " <> B.take 1 (B.drop 1 local) else B.take 2 local
  pure $ case place of
    SyslogLocal -> B.concat [priority, B.take 3 (B.drop 3 local), " ", day, " ", B.take 8 (B.drop 12 local), " heddle[", pid, "]: "]
    _ -> B.concat [priority, "1 ", isoFromLogTime local, " ", machine, " heddle ", pid, " - - "]

severityNumber :: Severity -> Int
severityNumber = (+ 3) . fromEnum

-- Rotation -----------------------------------------------------------------------

-- Before this many bytes of lines are written.
rotateFor :: LogSink -> (String -> IO ()) -> FilePath -> Int -> IO ()
rotateFor sink tell path n = for_ (rotateAt (sinkRotation sink)) $ \limit -> do
  size <- readWord ws SinkSize
  before <- readWord ws SinkPeriod
  now <- periodOf sink Nothing
  let over = case limit of
        AtSize most -> size + n > most
        AtTime _ -> now /= before
  when (size > 0 && over) $ do
    r <- trySync $ do
      fd <- readRef (sinkFd sink)
      mine <- getFdStatus fd
      named <- trySync (getFileStatus path)
      -- Another process that appends to the file may have moved it away: then this one follows. If the name cannot be looked up for
      -- another reason, opening it again tells.
      when (isRegularFile mine && either (const False) (same mine) named) $
        for_ [keep, keep - 1 .. 1] $ \i -> moveIfThere (old (i - 1)) (old i)
      if isRegularFile mine then reopenSink sink else pure ()
    case r of
      Right () -> pure ()
      -- Tried again after as many bytes, or in the next period.
      Left e -> writeWord ws SinkSize 0 >> tell ("cannot rotate: " ++ describeException e)
    writeWord ws SinkPeriod now
  where
    ws = sinkWords sink
    keep = max 1 (rotateKeep (sinkRotation sink))
    old :: Int -> FilePath
    old i = if i == 0 then path else path ++ "." ++ show i
    same a b = deviceID a == deviceID b && fileID a == fileID b
    moveIfThere from to =
      try (rename from to) >>= \case
        Left (e :: IOException) | errnoOf e /= Just ENOENT -> throwIO e
        _ -> pure ()
