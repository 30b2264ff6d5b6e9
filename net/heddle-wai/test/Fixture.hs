{-# LANGUAGE OverloadedStrings #-}

-- | The same application on Heddle and on Debian's Warp, each on a free port of the loopback interface.
module Fixture
  ( withHeddle,
    withHeddleSettings,
    withWarp,
    withWarpServer,
    Reports,
    reporting,
    reportsAre,
    get,
    loopback,
    withTemporary,
  )
where

import Control.Exception (SomeException, bracket, displayException)
import Control.Monad (unless)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Data.List (isInfixOf)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr (..), tupleToHostAddress)
import Network.Wai (Application)
import Network.Wai.Handler.Heddle qualified as Heddle
import Network.Wai.Handler.Warp qualified as Warp
import System.Directory (createDirectory, getTemporaryDirectory, removeDirectoryRecursive, removeFile)
import System.IO (hClose, openTempFile)

-- | One connection to the application on Heddle; nothing may be reported.
withHeddle :: Application -> (Client -> IO a) -> IO a
withHeddle application act = do
  reports <- newIORef []
  r <- withHeddleSettings (reporting reports Heddle.defaultSettings) application $ \address -> withClient address act
  reportsAre reports []
  pure r

-- | The application on Heddle, with settings.
withHeddleSettings :: Heddle.Settings -> Application -> (SockAddr -> IO a) -> IO a
withHeddleSettings settings application act = Heddle.withApplicationSettings settings (pure application) (act . loopback)

-- | One connection to the application on Warp.
withWarp :: Application -> (Client -> IO a) -> IO a
withWarp application act = withWarpServer application (`withClient` act)

-- | The application on Warp.
withWarpServer :: Application -> (SockAddr -> IO a) -> IO a
withWarpServer application act = Warp.withApplicationSettings (Warp.setOnException (\_ _ -> pure ()) Warp.defaultSettings) (pure application) (act . loopback)

loopback :: Int -> SockAddr
loopback port = SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1))

-- | Exceptions heard, in order: whether with a request, and the text.
type Reports = IORef [(Bool, String)]

-- | Keep the reports.
reporting :: Reports -> Heddle.Settings -> Heddle.Settings
reporting reports = Heddle.setOnException $ \request (e :: SomeException) ->
  atomicModifyIORef' reports (\old -> (old ++ [(maybe False (const True) request, displayException e)], ()))

-- | Exactly these were heard: with a request, and a part of the text.
reportsAre :: Reports -> [(Bool, String)] -> IO ()
reportsAre reports expected = do
  heard <- eventually ("reports: " ++ show expected) (readIORef reports) ((>= length expected) . length)
  unless (length heard == length expected && and (zipWith like expected heard)) $
    unexpected (show expected) (show heard)
  where
    like (with, part) (with', text) = with == with' && part `isInfixOf` text

-- | A plain request.
get :: ByteString -> ByteString
get target = C.concat ["GET ", target, " HTTP/1.1\r\nHost: a\r\n\r\n"]

-- | A directory that is removed afterwards.
withTemporary :: (FilePath -> IO a) -> IO a
withTemporary = bracket make removeDirectoryRecursive
  where
    make = do
      temporary <- getTemporaryDirectory
      (name, handle) <- openTempFile temporary "heddle-wai"
      hClose handle
      removeFile name
      name <$ createDirectory name
