-- |
-- Module      : ServeLimits
-- Description : heddle serve's options for limits
module ServeLimits
  ( limitOptions,
  )
where

import Control.Monad (foldM)
import Data.List (intercalate)
import Heddle.Serve.Config
import Options.Applicative hiding (argument)
import ServeWords

-- | Bodies and time-outs.
limitOptions :: Parser (ServerConfig -> ServerConfig)
limitOptions =
  (\body times server -> server {serverMaxBody = body, serverTimeOuts = foldl (\before change -> change before) (serverTimeOuts server) times})
    <$> setting "max-body" parseSize (metavar "SIZE" <> help "The longest body of a request, in bytes or with k, M or G (1,024, its square, its cube; default: 1G)")
    <*> many (option (eitherReader parseTimeOuts) (long "time-outs" <> metavar "NAME=SECONDS,..." <> help "head: for a request's head (default: 10); body, reply: before a body must come, and a reply be taken, at 240 bytes/s at least (10, 30); idle: as --idle"))

-- Names and seconds, separated by commas.
parseTimeOuts :: String -> Either String (TimeOutConfig -> TimeOutConfig)
parseTimeOuts = foldM one id . pieces
  where
    pieces text = case break (== ',') text of
      (piece, ',' : rest) -> piece : pieces rest
      (piece, _) -> [piece]
    one before text = case break (== '=') text of
      (name, '=' : given)
        | Just change <- lookup name names -> (\n -> change (Just n) . before) <$> argument seconds' given
        | otherwise -> Left ("'" ++ name ++ "' is not a time-out; there are " ++ intercalate ", " (map fst names))
      _ -> Left ("'" ++ text ++ "' has no = after the time-out's name; write NAME=SECONDS, such as head=5,reply=60")
    names :: [(String, Maybe (Written Int) -> TimeOutConfig -> TimeOutConfig)]
    names =
      [ ("head", \n times -> times {timeOutHead = n}),
        ("body", \n times -> times {timeOutBody = n}),
        ("reply", \n times -> times {timeOutReply = n}),
        ("idle", \n times -> times {timeOutIdle = n})
      ]
