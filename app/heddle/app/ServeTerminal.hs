-- |
-- Module      : ServeTerminal
-- Description : What heddle serve says, and where
--
-- Start-up line, messages, and on a terminal a line that shows the traffic. One thread says everything, so the line
-- that is updated in place is cleared before another one is written.
module ServeTerminal
  ( Terminal,
    newTerminal,
    forTerminal,
    say,
  )
where

import Control.Monad (when)
import Data.List (intercalate, stripPrefix)
import Data.List.NonEmpty (NonEmpty (..))
import Data.Maybe (fromMaybe, listToMaybe, mapMaybe)
import Heddle.Gateway.Proxy (Upstream (..))
import Heddle.Http.Client (Url (..), renderOrigin)
import Heddle.Prim.Atomic (Words, newWords, readWord, writeWord)
import Heddle.Prim.Message (putErrorLine)
import Heddle.Serve
import Heddle.Serve.Config (ConsoleLog (..))
import System.Environment (lookupEnv)
import System.IO (hFlush, stdout)
import System.Posix.IO (stdOutput)
import System.Posix.Terminal (queryTerminal)

-- | Where messages go.
data Terminal = Terminal
  { -- | Standard output is a terminal that can move its cursor.
    terminalMoves :: !Bool,
    -- | Colours are welcome.
    terminalColours :: !Bool,
    -- | Word 0: 1 while the line of traffic is shown.
    terminalShows :: !Words
  }

-- | Standard output as it is. NO_COLOR turns colours off, unless it is empty.
newTerminal :: IO Terminal
newTerminal = do
  there <- queryTerminal stdOutput
  kind <- lookupEnv "TERM"
  plain <- lookupEnv "NO_COLOR"
  let moves = there && kind `notElem` [Nothing, Just "", Just "dumb"]
  Terminal moves (moves && maybe True null plain) <$> newWords 1

-- | What to serve, with what the choice means on this terminal.
forTerminal :: Terminal -> ConsoleLog -> ServeOptions -> ServeOptions
forTerminal terminal choice options = case choice of
  ConsolePretty -> options {serveConsole = Just (Pretty (terminalColours terminal))}
  ConsoleAuto -> options {serveActivity = terminalMoves terminal && serveAccessLog options /= Just "-"}
  ConsoleQuiet -> options

-- | Say what happened.
say :: Terminal -> ServeOptions -> ServeEvent -> IO ()
say terminal chosen = \case
  Serving urls cores -> out ("Serving " ++ served ++ " on " ++ unwords urls ++ " (" ++ count cores "core" ++ "; Ctrl-C stops)")
  Draining open -> out ("Stopping; " ++ count open "open connection" ++ ".")
  Stopped 0 -> out "Stopped."
  Stopped cut -> out ("Stopped; " ++ count cut "connection" ++ " cut.")
  Trouble text -> apart (problem text)
  Failure text -> apart (problem text)
  Notice text -> apart (out ("heddle serve: " ++ text))
  Busy traffic -> do
    putStr ("\r" ++ trafficLine traffic ++ "\ESC[K")
    hFlush stdout
    writeWord (terminalShows terminal) 0 1
  where
    served = case serveSites chosen of
      site :| [] -> fromMaybe (intercalate ", " (map route (siteRoutes site))) (siteDirectory site)
      sites -> count (length sites) "site"
    -- Where everything goes to says more than its prefix, which is / most often.
    route spec = case specTarget spec of
      ProxyTo servers -> renderPattern (specPattern spec) ++ " from " ++ unwords (map (place . renderOrigin . urlOrigin . upstreamUrl) servers)
      _ -> renderPattern (specPattern spec)
    -- The only addresses in the line are those that are served at.
    place origin = fromMaybe origin (listToMaybe (mapMaybe (`stripPrefix` origin) ["http://", "https://", "unix:"]))
    problem text = clear >> putErrorLine ("heddle serve: " ++ text)
    -- With a log of messages, they are in it.
    apart = when (null (logErrors (serveLogs chosen)))
    -- Standard output may be the access log.
    out line
      | serveAccessLog chosen == Just "-" = putErrorLine line
      | otherwise = clear >> putStrLn line >> hFlush stdout
    clear = do
      shown <- readWord (terminalShows terminal) 0
      when (shown == 1) $ do
        putStr "\r\ESC[K"
        hFlush stdout
        writeWord (terminalShows terminal) 0 0

count :: Int -> String -> String
count n what = grouped n ++ " " ++ what ++ (if n == 1 then "" else "s")

-- At most 80 columns for any traffic of less than a year.
trafficLine :: Traffic -> String
trafficLine traffic =
  intercalate
    " | "
    [ grouped (trafficRate traffic) ++ " requests/s",
      count (trafficRequests traffic) "request",
      count (trafficErrors traffic) "error",
      size (trafficBytes traffic)
    ]

-- Digits in groups of three.
grouped :: Int -> String
grouped n = reverse (intercalate "," (groups (reverse (show n))))
  where
    groups text = case splitAt 3 text of
      (group, "") -> [group]
      (group, rest) -> group : groups rest

size :: Int -> String
size n
  | n < 1000 = show n ++ " B"
  | otherwise = go ["kB", "MB", "GB", "TB"] 1000
  where
    go units unit = case units of
      name : rest
        | n < 1000 * unit || null rest -> let tenths = n * 10 `quot` unit in show (tenths `quot` 10) ++ "." ++ show (tenths `rem` 10) ++ " " ++ name
        | otherwise -> go rest (unit * 1000)
      [] -> show n ++ " B"
